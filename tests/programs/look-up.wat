;; Looks up the name of a machine, and fails with whatever it is told.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (export "network" (type (sub resource)))
    (type $codes (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout" "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset" "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure" "permanent-resolver-failure"))
    (export "error-code" (type (eq $codes)))))
  (alias export $network "network" (type $network-resource))
  (alias export $network "error-code" (type $error-code))
  (import "wasi:sockets/instance-network@0.2.0" (instance $instance
    (alias outer 1 $network-resource (type $n)) (export "network" (type $network (eq $n)))
    (export "instance-network" (func (result (own $network))))))
  (import "wasi:sockets/ip-name-lookup@0.2.0" (instance $lookup
    (alias outer 1 $network-resource (type $n)) (export "network" (type $network (eq $n)))
    (alias outer 1 $error-code (type $c)) (export "error-code" (type $code (eq $c)))
    (export "resolve-address-stream" (type $stream (sub resource)))
    (export "resolve-addresses"
      (func (param "network" (borrow $network)) (param "name" string) (result (result (own $stream) (error $code)))))))
  (core module $memory
    (memory (export "memory") 2)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x10000)))
  (core instance $mem (instantiate $memory))
  (core func $network (canon lower (func $instance "instance-network")))
  (core func $resolve (canon lower (func $lookup "resolve-addresses") (memory (core memory $mem "memory"))))
  (core module $m
    (import "host" "memory" (memory 2))
    (import "host" "network" (func $network (result i32)))
    (import "host" "resolve" (func $resolve (param i32 i32 i32 i32)))
    ;; The answer has the success or failure at 8 and the error code at 12; what is returned has them side by side.
    (func (export "resolve") (param $name i32) (param $len i32) (result i32)
      (call $resolve (call $network) (local.get $name) (local.get $len) (i32.const 8))
      (i32.store8 (i32.const 9) (i32.load8_u (i32.const 12)))
      (i32.const 8)))
  (core instance $i (instantiate $m (with "host" (instance
    (export "memory" (memory $mem "memory")) (export "network" (func $network)) (export "resolve" (func $resolve))))))
  (func (export "resolve") (param "name" string) (result (result (error $error-code)))
    (canon lift (core func $i "resolve") (memory (core memory $mem "memory")) (realloc (core func $mem "realloc")))))
