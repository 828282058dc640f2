"""System prompts that still tell the model to ask, in eight languages, and ones that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from breadcrumbs.errors import DataError
from breadcrumbs.eval.audit_phrases import LANGUAGES
from breadcrumbs.eval.audit_prompt import audit_prompt, find_demands
from breadcrumbs.prompts import COUPLED, DECOUPLED

DEMANDS = {
    "en": [
        "Always ask the user before you act.",
        "Never run a tool without asking first.",
        "Before executing any write, confirm the parameters with the user.",
        "Wait for explicit approval from the user before sending.",
        "Do not guess, ask the user for permission.",
        "Only proceed once the user has confirmed.",
        "Get the customer's consent before you book.",
        "End with: would you like me to proceed?",
        "Do not execute anything until the user agrees.",
        "The user must approve every change.",
        "Please check with the user before deleting.",
    ],
    "de": [
        "Frage den Benutzer immer um Erlaubnis, bevor du handelst.",
        "Führe nichts ohne ausdrückliche Zustimmung des Nutzers aus.",
        "Hole vor jedem Schreibzugriff eine Bestätigung ein.",
        "Bevor du etwas änderst, frage nach.",
        "Warte auf die Bestätigung des Kunden.",
        "Bitten Sie den Nutzer um Bestätigung.",
    ],
    "fr": [
        "Demande toujours confirmation avant d'agir.",
        "N'exécute jamais rien sans l'accord de l'utilisateur.",
        "Avant toute écriture, demandez à l'utilisateur s'il est d'accord.",
        "Attends l'autorisation de l'utilisateur.",
        "Confirmez avec l'utilisateur les paramètres.",
    ],
    "es": [
        "Pide siempre confirmación antes de actuar.",
        "Nunca ejecutes nada sin el permiso del usuario.",
        "Pregunta al usuario antes de escribir.",
        "Antes de enviar, confirma los datos.",
        "Confirma con el usuario.",
    ],
    "it": [
        "Chiedi sempre conferma prima di agire.",
        "Non eseguire mai nulla senza il permesso dell'utente.",
        "Prima di scrivere, chiedi all'utente.",
        "Attendi l'approvazione dell'utente.",
    ],
    "pt": [
        "Peça sempre confirmação antes de agir.",
        "Nunca execute nada sem a permissão do usuário.",
        "Antes de enviar, pergunte ao usuário.",
        "Aguarde a aprovação do cliente.",
    ],
    "zh": [
        "执行任何写操作之前必须先询问用户。",
        "未经用户同意，不得执行。",
        "请先征得用户的同意。",
        "调用工具前请与用户确认参数。",
    ],
    "ja": [
        "実行する前に必ずユーザーに確認してください。",
        "ユーザーの許可なしに実行してはいけません。",
        "書き込みの前にユーザーの承認を得てください。",
        "必ずユーザーに確認してから実行する。",
    ],
}
RIGHT = [
    "Do not ask for confirmation before you call a tool.",
    "Never ask for permission: the gateway holds writes.",
    "Ask only for a missing required value before you call.",
    "The gateway asks a person for approval before a write runs.",
    "Act at once without asking for confirmation.",
    "Confirm in one sentence what was done.",
    "Answer in the user's language.",
    "Frage nicht nach Bestätigung, bevor du handelst.",
    "Handle, ohne um Erlaubnis zu bitten.",
    "Ne demande pas de confirmation avant d'agir.",
    "Agis sans demander d'autorisation.",
    "No pidas confirmación antes de actuar.",
    "Actúa sin pedir permiso.",
    "Non chiedere conferma prima di agire.",
    "Não peça confirmação antes de agir.",
    "不要在执行前询问用户确认。",
    "无需征得用户同意，直接执行。",
    "実行前に確認を求めないでください。",
    "ユーザーの許可を求めずに実行する。",
    "Never invent a value.",
    "If a required value is missing, ask the user for it.",
    "Never delete a file without a backup.",
    "Use the confirmation number the user gave.",
    "Check the weather before you answer.",
]


@pytest.mark.parametrize(("language", "text"), [(c, t) for c, ts in DEMANDS.items() for t in ts])
def test_demands_are_found(language: str, text: str) -> None:
    assert [demand.language for demand in find_demands(text)] == [language]


@pytest.mark.parametrize("text", [*RIGHT, *DECOUPLED, *(language.mend for language in LANGUAGES)])
def test_what_a_prompt_may_say_is_not_found(text: str) -> None:
    assert find_demands(text) == []


@pytest.mark.parametrize("text", COUPLED)
def test_our_own_coupled_prompts_are_found(text: str) -> None:
    assert find_demands(text)


def test_line_and_words_are_quoted_across_a_hard_wrap(tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text(
        "# Desk\n\nYou book rooms. Answer in short. Always ask\nthe user before you act.\n\n- Be kind\n- Wait for\n  approval from the user\n"
    )
    report = audit_prompt(file)
    assert [finding.where for finding in report.findings] == [f"{file}:3", f"{file}:7"]
    assert "Always ask the user before you act." in report.findings[0].finding
    assert DECOUPLED[0] in report.findings[0].mend


def test_a_clean_prompt_has_no_findings(tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_text("\n".join([*DECOUPLED, *RIGHT]))
    assert audit_prompt(file).findings == ()


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "empty"), (b" \n", "empty"), (b"\xff\xfe", "not UTF-8")]
)
def test_bad_prompt_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "prompt"
    file.write_bytes(content)
    with pytest.raises(DataError, match=words):
        audit_prompt(file)


@pytest.mark.parametrize("word", ["ask ", "never without ", "before ", "前", "確認を"])
def test_a_long_text_without_an_end_does_not_hang(word: str) -> None:
    find_demands(word * 20_000)
