//! An MCP server in a few lines of `sh`, which a test can make misbehave.

/// A script that answers as a server of revision 2025-11-25, one line at a time. Variables of its environment control
/// it:
///
/// - `TOOLS`: its tools, the JSON of a list; by default, one named `t` without arguments.
/// - `ON_CALL`: commands for every call. `$id` is that of the call; `answer JSON` and `fail CODE TEXT` answer it.
/// - `ON_START`: commands before anything is read.
/// - `ON_LIST`: commands before each list of tools.
/// - `CAPABILITIES`: what it says that it has, as JSON; by default, tools whose list may change.
/// - `ON_OTHER`: commands for requests of other methods.
/// - `ON_DISCOVER`, `ON_INITIALIZE`: commands for the first request of the newest revision and of those before it.
///
/// In commands, `$line` is the message that is being answered.
pub const SCRIPT: &str = r#"
test -n "${TOOLS-}" || TOOLS='[{"name":"t","description":"d","inputSchema":{"type":"object"}}]'
test -n "${CAPABILITIES-}" || CAPABILITIES='{"tools":{"listChanged":true}}'
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
fail() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s"}}\n' "$id" "$1" "$2"; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
hello() { answer '{"protocolVersion":"2025-11-25","capabilities":'"$CAPABILITIES"',"serverInfo":{"name":"fake","version":"0"}}'; }
eval "${ON_START-}"
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[,\}]*}
    case $line in
    *'"method":"server/discover"'*) eval "${ON_DISCOVER-fail -32601 unknown}" ;;
    *'"method":"initialize"'*) eval "${ON_INITIALIZE:-hello}" ;;
    *'"method":"tools/list"'*) eval "${ON_LIST-}"; answer '{"tools":'"$TOOLS"'}' ;;
    *'"method":"tools/call"'*) eval "${ON_CALL-text done}" ;;
    *'"method":"notifications/'* | *'"result":'* | *'"error":'*) ;;
    *) eval "${ON_OTHER-fail -32601 unknown}" ;;
    esac
done
"#;
