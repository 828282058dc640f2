"""The challenge of a card: proof that a decision answers this card, and no other.

HMAC-SHA256 over canonical JSON of everything the card binds, so that no field can run into the
next. A key ring rotates: the first key mints, the others still verify, a removed one does not.
A challenge goes to the channel that shows the card, never to the model; alone it decides nothing.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import rfc8785

from breadcrumbs.errors import ConfigError

if TYPE_CHECKING:
    from breadcrumbs.gateway.approvals import ApprovalCard

KEYS_VARIABLE = "BREADCRUMBS_APPROVAL_KEYS"
KEYS_FILE_VARIABLE = "BREADCRUMBS_APPROVAL_KEYS_FILE"
_DOMAIN = "breadcrumbs/approval/v1"
_LINE = re.compile(r"([A-Za-z0-9_-]{1,32}):([0-9a-fA-F]{64,})")


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Secret keys by name; `newest` mints."""

    newest: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def fresh(cls) -> KeyRing:
        """One key of this process alone: a restart forgets the challenges that are out."""
        return cls("process", {"process": secrets.token_bytes(32)})

    @classmethod
    def parse(cls, text: str, where: str) -> KeyRing:
        """Read `NAME:HEX` entries, one a line or separated by commas, the newest first.

        Raises:
            ConfigError: an entry is malformed or shorter than 32 bytes, or a name stands twice.
        """
        keys: dict[str, bytes] = {}
        entries = [part.strip() for part in text.replace(",", "\n").splitlines()]
        for number, entry in enumerate(entries, 1):
            if not entry or entry.startswith("#"):
                continue
            match = _LINE.fullmatch(entry)
            if match is None or len(match[2]) % 2:  # the message must not show the key
                raise ConfigError(
                    f"{where}: entry {number}: write NAME:HEX with at least 64 hex digits"
                    " (openssl rand -hex 32)"
                )
            if match[1] in keys:
                raise ConfigError(f"{where}: entry {number}: key {match[1]!r} stands twice")
            keys[match[1]] = bytes.fromhex(match[2])
        if not keys:
            raise ConfigError(f"{where}: holds no key; write NAME:HEX (openssl rand -hex 32)")
        return cls(next(iter(keys)), keys)

    @classmethod
    def configured(cls) -> KeyRing:
        """The ring of BREADCRUMBS_APPROVAL_KEYS or the file of ..._FILE; else a fresh one.

        Raises:
            ConfigError: the file cannot be read, is open to others, or is malformed.
        """
        if place := os.environ.get(KEYS_FILE_VARIABLE):
            return cls.parse(_private_text(Path(place)), place)
        if text := os.environ.get(KEYS_VARIABLE):
            return cls.parse(text, KEYS_VARIABLE)
        return cls.fresh()


def mint(card: ApprovalCard, ring: KeyRing) -> str:
    """The challenge of a card, `NAME.MAC`."""
    return f"{ring.newest}.{_mac(card, ring.newest, ring.keys[ring.newest])}"


def fits(card: ApprovalCard, challenge: str, ring: KeyRing) -> bool:
    """Whether a challenge was minted for this very card by a key that is not retired."""
    name = challenge.partition(".")[0]
    key = ring.keys.get(name)
    if key is None:
        return False
    # Texts are compared: one MAC has several base64 spellings, and only ours is right.
    expected = f"{name}.{_mac(card, name, key)}"
    return hmac.compare_digest(expected.encode(), challenge.encode("utf-8", "replace"))


def _mac(card: ApprovalCard, name: str, key: bytes) -> str:
    bound = rfc8785.dumps(
        [
            _DOMAIN,
            name,
            card.id,
            card.principal,
            card.session,
            card.tool,
            card.tool_version,
            card.arguments_sha,
            card.expires_at,
            card.nonce,
        ]
    )
    digest = hmac.digest(key, bound, "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _private_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            if mode & 0o077:
                raise ConfigError(f"{path}: open to others (mode {mode:04o}); chmod 600 {path}")
            return file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a key file: not UTF-8 text") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the keys: {error.strerror}") from error
