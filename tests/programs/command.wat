;; A program of `wasi:cli/command`: writes a line to its standard output, and fails without an exit code of its own.
(component
  (import "wasi:io/error@0.2.0" (instance $error
    (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $error (type $outer))
    (export "error" (type $error (eq $outer)))
    (type $failure (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $failure)))
    (export "output-stream" (type $output-stream (sub resource)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $output-stream)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output-stream (type $outer))
    (export "output-stream" (type $output-stream (eq $outer)))
    (export "get-stdout" (func (result (own $output-stream))))))
  (core func $stdout (canon lower (func $stdout "get-stdout")))
  (core module $memory (memory (export "memory") 1) (data (i32.const 64) "it is closed\n"))
  (core instance $mem (instantiate $memory))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory (core memory $mem "memory"))))
  (core module $m
    (import "host" "stdout" (func $stdout (result i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (func (export "run") (result i32)
      (call $write (call $stdout) (i32.const 64) (i32.const 13) (i32.const 8))
      (i32.const 1)))
  (core instance $i (instantiate $m (with "host" (instance
    (export "stdout" (func $stdout))
    (export "write" (func $write))))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $run (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $run)))
