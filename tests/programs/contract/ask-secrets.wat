;; Asks whether it was granted secrets of three names, and answers with a digit for each: 1 if so, 0 if not.
(module
  (import "fumehood:tool/secrets@0.1.0" "exists" (func $exists (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 4096))
  (data (i32.const 0) "ask")
  (data (i32.const 16) "Asks for secrets")
  (data (i32.const 64) "{\"type\":\"object\"}")
  (data (i32.const 128)
    "\00\00\00\00" "\03\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\10\00\00\00" "\10\00\00\00"
    "\40\00\00\00" "\11\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00"
    "\00\00\00\00\00\00\00\00")
  (data (i32.const 192) "\80\00\00\00\01\00\00\00")
  (data (i32.const 512) "mine")
  (data (i32.const 528) "theirs")
  (data (i32.const 544) "nobody")
  ;; A part of a result: three characters of text.
  (data (i32.const 768) "\00\00\00\00" "\20\03\00\00" "\03\00\00\00")
  (func $answer (param $at i32) (param $name i32) (param $length i32)
    (i32.store8 (local.get $at)
      (i32.add (i32.const 48) (call $exists (local.get $name) (local.get $length)))))
  (func (export "fumehood:tool/tools@0.1.0#describe") (result i32) (i32.const 192))
  (func (export "fumehood:tool/tools@0.1.0#call") (param i32 i32 i32 i32 i32 i32) (result i32)
    (call $answer (i32.const 800) (i32.const 512) (i32.const 4))
    (call $answer (i32.const 801) (i32.const 528) (i32.const 6))
    (call $answer (i32.const 802) (i32.const 544) (i32.const 6))
    (i32.store (i32.const 1032) (i32.const 768))
    (i32.store (i32.const 1036) (i32.const 1))
    (i32.const 1024))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at)))
