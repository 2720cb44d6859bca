;; A program for WASI preview 1. The first letter of its argument chooses what it does:
;;   a  prints its arguments          c  copies its input             n  writes bytes that are no text
;;   x  exits with the code after it  s  spins                        r  reads its input for ever
;;   o  floods stdout                 e  floods stderr                m  takes all memory
;;   t  crashes
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 8)
  (data (i32.const 64) "flood flood flood flood flood flood flood flood flood flood\n")
  (data (i32.const 128) "\ff\fe\n")
  (func $write (param $fd i32) (param $at i32) (param $length i32)
    (block $done
      (loop $more
        (br_if $done (i32.eqz (local.get $length)))
        (i32.store (i32.const 0) (local.get $at))
        (i32.store (i32.const 4) (local.get $length))
        (br_if $done (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
        (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
        (local.set $length (i32.sub (local.get $length) (i32.load (i32.const 8))))
        (br $more))))
  (func $read (result i32)
    (i32.store (i32.const 0) (i32.const 262144))
    (i32.store (i32.const 4) (i32.const 65536))
    (i32.store (i32.const 8) (i32.const 0))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func $copy (local $length i32)
    (loop $more
      (local.set $length (call $read))
      (call $write (i32.const 1) (i32.const 262144) (local.get $length))
      (br_if $more (local.get $length))))
  (func $print-arguments (local $at i32) (local $length i32) (local $pointer i32)
    (local.set $pointer (i32.const 1024))
    (loop $next
      (local.set $at (i32.load (local.get $pointer)))
      (local.set $length (i32.const 0))
      (block $end
        (loop $more
          (br_if $end (i32.eqz (i32.load8_u (i32.add (local.get $at) (local.get $length)))))
          (local.set $length (i32.add (local.get $length) (i32.const 1)))
          (br $more)))
      (i32.store8 (i32.add (local.get $at) (local.get $length)) (i32.const 10))
      (call $write (i32.const 1) (local.get $at) (i32.add (local.get $length) (i32.const 1)))
      (local.set $pointer (i32.add (local.get $pointer) (i32.const 4)))
      (i32.store (i32.const 16) (i32.sub (i32.load (i32.const 16)) (i32.const 1)))
      (br_if $next (i32.load (i32.const 16)))))
  (func $number (param $at i32) (result i32) (local $digit i32) (local $number i32)
    (block $end
      (loop $more
        (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
        (br_if $end (i32.gt_u (local.get $digit) (i32.const 9)))
        (local.set $number (i32.add (i32.mul (local.get $number) (i32.const 10)) (local.get $digit)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $more)))
    (local.get $number))
  (func $flood (param $fd i32)
    (loop $more (call $write (local.get $fd) (i32.const 64) (i32.const 60)) (br $more)))
  (func (export "_start") (local $letter i32)
    (drop (call $args_sizes_get (i32.const 16) (i32.const 20)))
    (drop (call $args_get (i32.const 1024) (i32.const 8192)))
    (if (i32.lt_u (i32.load (i32.const 16)) (i32.const 2)) (then (return)))
    (local.set $letter (i32.load8_u (i32.load (i32.const 1028))))
    (if (i32.eq (local.get $letter) (i32.const 0x61)) (then (call $print-arguments)))
    (if (i32.eq (local.get $letter) (i32.const 0x63)) (then (call $copy)))
    (if (i32.eq (local.get $letter) (i32.const 0x6e)) (then (call $write (i32.const 1) (i32.const 128) (i32.const 3))))
    (if (i32.eq (local.get $letter) (i32.const 0x78)) (then
      (call $write (i32.const 2) (i32.const 64) (i32.const 6))
      (call $proc_exit (call $number (i32.add (i32.load (i32.const 1028)) (i32.const 1))))))
    (if (i32.eq (local.get $letter) (i32.const 0x73)) (then (loop $more (br $more))))
    (if (i32.eq (local.get $letter) (i32.const 0x72)) (then (loop $more (drop (call $read)) (br $more))))
    (if (i32.eq (local.get $letter) (i32.const 0x6f)) (then (call $flood (i32.const 1))))
    (if (i32.eq (local.get $letter) (i32.const 0x65)) (then (call $flood (i32.const 2))))
    (if (i32.eq (local.get $letter) (i32.const 0x6d)) (then
      (loop $more (br_if $more (i32.ne (memory.grow (i32.const 256)) (i32.const -1))))
      (unreachable)))
    (if (i32.eq (local.get $letter) (i32.const 0x74)) (then (unreachable)))))
