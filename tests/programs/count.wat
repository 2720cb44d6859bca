;; Counts to a number: exactly as much work as it is asked for.
(component
  (core module $m
    (func (export "run") (param $to i64) (result i64)
      (local $n i64)
      (block $done
        (loop $again
          (br_if $done (i64.ge_u (local.get $n) (local.get $to)))
          (local.set $n (i64.add (local.get $n) (i64.const 1)))
          (br $again)))
      (local.get $n)))
  (core instance $i (instantiate $m))
  (func (export "run") (param "to" u64) (result u64) (canon lift (core func $i "run"))))
