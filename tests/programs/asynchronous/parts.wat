;; Tools of version 0.2 of the contract, whose results arrive in parts: one that plays along, and ways not to.
(component
  (type $annotations (record (field "read-only" (option bool)) (field "destructive" (option bool))
    (field "idempotent" (option bool)) (field "open-world" (option bool))))
  (type $definition (record (field "name" string) (field "title" (option string)) (field "description" string)
    (field "input-schema" string) (field "output-schema" (option string)) (field "annotations" $annotations)))
  (type $request (record (field "id" string) (field "tool" string) (field "arguments" string)))
  (type $blob (record (field "mime-type" string) (field "data" (list u8))))
  (type $link (record (field "uri" string) (field "title" (option string)) (field "mime-type" (option string))))
  (type $content (variant (case "text" string) (case "json" string) (case "blob" $blob) (case "link" $link)))
  (type $kind (enum "invalid-arguments" "failed" "unavailable" "denied"))
  (type $failure (record (field "kind" $kind) (field "message" string) (field "retry-after-ms" (option u64))))
  (type $parts (stream (result $content (error $failure))))
  (core module $memory
    (memory (export "memory") 64)
    (global $next (mut i32) (i32.const 0x8000))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 3))))
    (data (i32.const 16) "Returns parts.")
    (data (i32.const 32) "{\"type\":\"object\"}")
    (data (i32.const 64) "parts fail nothing endless unwritten trap aliased slow json forget bulk")
    ;; Place and length of each name.
    (data (i32.const 160)
      "\40\00\00\00\05\00\00\00" "\46\00\00\00\04\00\00\00" "\4b\00\00\00\07\00\00\00" "\53\00\00\00\07\00\00\00"
      "\5b\00\00\00\09\00\00\00" "\65\00\00\00\04\00\00\00" "\6a\00\00\00\07\00\00\00" "\72\00\00\00\04\00\00\00"
      "\77\00\00\00\04\00\00\00" "\7c\00\00\00\06\00\00\00" "\83\00\00\00\04\00\00\00")
    (data (i32.const 256) "one" "two" "stop")
    ;; The list of definitions.
    (data (i32.const 272) "\00\10\00\00\0b\00\00\00")
    ;; Items of 48 bytes: the texts `one` and `two`, the failure `stop`, a JSON value that is none, and a text of a mebibyte of zeroes.
    (data (i32.const 320) "\00\00\00\00\00\00\00\00" "\00\00\00\00" "\00\01\00\00\03\00\00\00")
    (data (i32.const 368) "\00\00\00\00\00\00\00\00" "\00\00\00\00" "\03\01\00\00\03\00\00\00")
    (data (i32.const 416) "\01\00\00\00\00\00\00\00" "\02\00\00\00" "\06\01\00\00\04\00\00\00")
    (data (i32.const 464) "\00\00\00\00\00\00\00\00" "\01\00\00\00" "\00\01\00\00\03\00\00\00")
    (data (i32.const 512) "\00\00\00\00\00\00\00\00" "\00\00\00\00" "\00\00\20\00\00\00\10\00"))
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (core func $new (canon stream.new $parts))
  (core func $write (canon stream.write $parts async (memory $mem)))
  (core func $drop (canon stream.drop-writable $parts))
  (core func $return (canon task.return (result $parts)))
  (core module $run
    (import "m" "memory" (memory 64))
    (import "h" "new" (func $new (result i64)))
    (import "h" "write" (func $write (param i32 i32 i32) (result i32)))
    (import "h" "drop" (func $drop (param i32)))
    (import "h" "return" (func $return (param i32)))
    (global $writer (mut i32) (i32.const 0))
    ;; The first two letters of the tool's name, and how often its callback has run.
    (global $tool (mut i32) (i32.const 0))
    (global $turn (mut i32) (i32.const 0))
    (func $send (param $item i32) (param $count i32)
      (drop (call $write (global.get $writer) (local.get $item) (local.get $count))))
    (func $end (result i32) (call $drop (global.get $writer)) (i32.const 0))
    (func $is (param $letters i32) (result i32) (i32.eq (global.get $tool) (local.get $letters)))
    (func (export "describe") (result i32) (local $number i32) (local $at i32) (local $name i32)
      (loop $again
        (local.set $at (i32.add (i32.const 4096) (i32.mul (local.get $number) (i32.const 56))))
        (local.set $name (i32.add (i32.const 160) (i32.mul (local.get $number) (i32.const 8))))
        (i64.store (local.get $at) (i64.load (local.get $name)))
        (i32.store offset=20 (local.get $at) (i32.const 16))
        (i32.store offset=24 (local.get $at) (i32.const 14))
        (i32.store offset=28 (local.get $at) (i32.const 32))
        (i32.store offset=32 (local.get $at) (i32.const 17))
        (local.set $number (i32.add (local.get $number) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $number) (i32.const 11))))
      (i32.const 272))
    ;; Returns the stream, and writes when it runs again after a yield.
    (func (export "call") (param i32 i32 i32 i32 i32 i32) (result i32) (local $ends i64)
      (global.set $tool (i32.load16_u (local.get 2)))
      (local.set $ends (call $new))
      (global.set $writer (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
      (call $return (i32.wrap_i64 (local.get $ends)))
      (i32.const 1))
    (func (export "callback") (param i32 i32 i32) (result i32)
      (global.set $turn (i32.add (global.get $turn) (i32.const 1)))
      ;; `parts`: one in each of two turns.
      (if (call $is (i32.const 0x6170)) (then
        (call $send (select (i32.const 320) (i32.const 368) (i32.eq (global.get $turn) (i32.const 1))) (i32.const 1))
        (if (i32.eq (global.get $turn) (i32.const 1)) (then (return (i32.const 1))))
        (return (call $end))))
      ;; `fail`: a part, a failure, and nothing may be read after that.
      (if (call $is (i32.const 0x6166)) (then
        (call $send (i32.const 320) (i32.const 3)) (return (call $end))))
      ;; `nothing`.
      (if (call $is (i32.const 0x6f6e)) (then (return (call $end))))
      ;; `endless`: a thousand empty texts in each turn.
      (if (call $is (i32.const 0x6e65)) (then (call $send (i32.const 0x10000) (i32.const 1000)) (return (i32.const 1))))
      ;; `unwritten` ends, and keeps its end of the stream.
      (if (call $is (i32.const 0x6e75)) (then (return (i32.const 0))))
      ;; `trap`: ends the stream, and then crashes.
      (if (call $is (i32.const 0x7274)) (then
        (call $send (i32.const 320) (i32.const 1)) (drop (call $end)) (unreachable)))
      ;; `aliased`: 60,000 times the text of a mebibyte, in one write.
      (if (call $is (i32.const 0x6c61)) (then
        (memory.copy (i32.const 0x10000) (i32.const 512) (i32.const 48))
        (loop $again
          (memory.copy (i32.add (i32.const 0x10000) (i32.mul (global.get $turn) (i32.const 48))) (i32.const 512) (i32.const 48))
          (global.set $turn (i32.add (global.get $turn) (i32.const 1)))
          (br_if $again (i32.lt_u (global.get $turn) (i32.const 60000))))
        (call $send (i32.const 0x10000) (i32.const 60000)) (return (call $end))))
      ;; `slow`: one part, and then it yields for ever.
      (if (call $is (i32.const 0x6c73)) (then
        (if (i32.eq (global.get $turn) (i32.const 1)) (then (call $send (i32.const 320) (i32.const 1))))
        (return (i32.const 1))))
      ;; `json`.
      (if (call $is (i32.const 0x736a)) (then (call $send (i32.const 464) (i32.const 1)) (return (call $end))))
      ;; `forget`: a part, and it ends without the end of the stream.
      (if (call $is (i32.const 0x6f66)) (then (call $send (i32.const 320) (i32.const 1)) (return (i32.const 0))))
      ;; `bulk`: 40,000 empty texts in one write, over and over.
      (call $send (i32.const 0x10000) (i32.const 40000))
      (i32.const 1)))
  (core instance $i (instantiate $run (with "m" (instance $m)) (with "h" (instance
    (export "new" (func $new)) (export "write" (func $write)) (export "drop" (func $drop))
    (export "return" (func $return))))))
  (func $describe (result (list $definition))
    (canon lift (core func $i "describe") (memory $mem)))
  (func $call async (param "request" $request) (result $parts)
    (canon lift (core func $i "call") async (callback (core func $i "callback")) (memory $mem)
      (realloc (core func $m "realloc"))))
  (instance $tools
    (export "annotations" (type $annotations)) (export "tool-definition" (type $definition))
    (export "tool-call" (type $request)) (export "blob" (type $blob)) (export "link" (type $link))
    (export "content" (type $content)) (export "failure-kind" (type $kind)) (export "failure" (type $failure))
    (export "describe" (func $describe)) (export "call" (func $call)))
  (export "fumehood:tool/tools@0.2.0" (instance $tools)))
