;; Loops for ever in its start function, before anything was called.
(component
  (core module $m
    (func $start (loop (br 0)))
    (start $start)
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
