;; Tries to open sockets, and says what it was told.
(component
  (import "wasi:sockets/network@0.2.0" (instance $network
    (export "network" (type (sub resource)))
    (type $codes (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout" "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset" "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure" "permanent-resolver-failure"))
    (export "error-code" (type (eq $codes)))
    (type $families (enum "ipv4" "ipv6"))
    (export "ip-address-family" (type (eq $families)))))
  (alias export $network "error-code" (type $error-code))
  (alias export $network "ip-address-family" (type $family))
  (import "wasi:sockets/tcp@0.2.0" (instance $tcp-types (export "tcp-socket" (type (sub resource)))))
  (alias export $tcp-types "tcp-socket" (type $tcp-socket))
  (import "wasi:sockets/udp@0.2.0" (instance $udp-types (export "udp-socket" (type (sub resource)))))
  (alias export $udp-types "udp-socket" (type $udp-socket))
  (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $tcp
    (alias outer 1 $error-code (type $c)) (export "error-code" (type $code (eq $c)))
    (alias outer 1 $family (type $f)) (export "ip-address-family" (type $family (eq $f)))
    (alias outer 1 $tcp-socket (type $s)) (export "tcp-socket" (type $socket (eq $s)))
    (export "create-tcp-socket" (func (param "address-family" $family) (result (result (own $socket) (error $code)))))))
  (import "wasi:sockets/udp-create-socket@0.2.0" (instance $udp
    (alias outer 1 $error-code (type $c)) (export "error-code" (type $code (eq $c)))
    (alias outer 1 $family (type $f)) (export "ip-address-family" (type $family (eq $f)))
    (alias outer 1 $udp-socket (type $s)) (export "udp-socket" (type $socket (eq $s)))
    (export "create-udp-socket" (func (param "address-family" $family) (result (result (own $socket) (error $code)))))))
  (core module $memory (memory (export "memory") 1))
  (core instance $mem (instantiate $memory))
  (core func $tcp (canon lower (func $tcp "create-tcp-socket") (memory (core memory $mem "memory"))))
  (core func $udp (canon lower (func $udp "create-udp-socket") (memory (core memory $mem "memory"))))
  (core module $m
    (import "host" "memory" (memory 1))
    (import "host" "tcp" (func $tcp (param i32 i32)))
    (import "host" "udp" (func $udp (param i32 i32)))
    ;; The number of the error code, or 255 if there was none.
    (func $told (result i32)
      (if (result i32) (i32.load8_u (i32.const 8)) (then (i32.load8_u (i32.const 12))) (else (i32.const 255))))
    (func (export "tcp") (result i32) (call $tcp (i32.const 0) (i32.const 8)) (call $told))
    (func (export "udp") (result i32) (call $udp (i32.const 1) (i32.const 8)) (call $told)))
  (core instance $i (instantiate $m (with "host" (instance
    (export "memory" (memory $mem "memory")) (export "tcp" (func $tcp)) (export "udp" (func $udp))))))
  (func (export "tcp") (result u32) (canon lift (core func $i "tcp")))
  (func (export "udp") (result u32) (canon lift (core func $i "udp"))))
