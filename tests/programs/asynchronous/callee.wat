;; A component that calls another in the same composition, which does not play along: it ignores cancellation, holds every call back, or
;; never ends.
(component
  (component $callee
    (core func $new (canon waitable-set.new))
    (core func $inc (canon backpressure.inc))
    (core module $m
      (import "h" "new" (func $new (result i32)))
      (import "h" "inc" (func $inc))
      (func (export "hold") (call $inc))
      ;; Waits for an event of an empty set, and again after each event: also when it is cancelled.
      (func $wait (result i32) (i32.or (i32.const 2) (i32.shl (call $new) (i32.const 4))))
      (func (export "linger") (result i32) (call $wait))
      (func (export "lingered") (param i32 i32 i32) (result i32) (call $wait)))
    (core instance $i (instantiate $m (with "h" (instance
      (export "new" (func $new)) (export "inc" (func $inc))))))
    (func (export "hold") (canon lift (core func $i "hold")))
    (func (export "linger") async (canon lift (core func $i "linger") async (callback (core func $i "lingered")))))
  (component $caller
    (import "hold" (func $hold))
    (import "linger" (func $linger async))
    (core module $memory (memory (export "memory") 1))
    (core instance $m (instantiate $memory))
    (alias core export $m "memory" (core memory $mem))
    (core func $hold (canon lower (func $hold)))
    (core func $linger (canon lower (func $linger) async))
    (core func $cancel (canon subtask.cancel))
    (core func $new (canon waitable-set.new))
    (core func $wait (canon waitable-set.wait (memory $mem)))
    (core func $join (canon waitable.join))
    (core module $run
      (import "h" "hold" (func $hold))
      (import "h" "linger" (func $linger (result i32)))
      (import "h" "cancel" (func $cancel (param i32) (result i32)))
      (import "h" "new" (func $new (result i32)))
      (import "h" "wait" (func $wait (param i32 i32) (result i32)))
      (import "h" "join" (func $join (param i32 i32)))
      (func $begin (result i32) (i32.shr_u (call $linger) (i32.const 4)))
      (func $await (param $task i32) (local $set i32)
        (local.set $set (call $new))
        (call $join (local.get $task) (local.get $set))
        (drop (call $wait (local.get $set) (i32.const 0))))
      ;; Cancels a task that ignores it.
      (func (export "cancel") (drop (call $cancel (call $begin))))
      ;; Waits for a task that never begins, and for one that never ends.
      (func (export "held") (call $hold) (call $await (call $begin)))
      (func (export "endless") (call $await (call $begin)))
      ;; Begins tasks without end.
      (func (export "tasks") (loop $again (drop (call $linger)) (br $again))))
    (core instance $i (instantiate $run (with "h" (instance
      (export "hold" (func $hold)) (export "linger" (func $linger)) (export "cancel" (func $cancel))
      (export "new" (func $new)) (export "wait" (func $wait)) (export "join" (func $join))))))
    (func (export "cancel") async (canon lift (core func $i "cancel")))
    (func (export "held") async (canon lift (core func $i "held")))
    (func (export "endless") async (canon lift (core func $i "endless")))
    (func (export "tasks") async (canon lift (core func $i "tasks"))))
  (instance $callee (instantiate $callee))
  (instance $caller (instantiate $caller
    (with "hold" (func $callee "hold")) (with "linger" (func $callee "linger"))))
  (export "cancel" (func $caller "cancel"))
  (export "held" (func $caller "held"))
  (export "endless" (func $caller "endless"))
  (export "tasks" (func $caller "tasks")))
