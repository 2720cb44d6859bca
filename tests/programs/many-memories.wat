;; Four memories of 24 MiB, each of them small enough.
(component
  (core module $m
    (memory 384)
    (func (export "run")))
  (core instance $a (instantiate $m))
  (core instance $b (instantiate $m))
  (core instance $c (instantiate $m))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
