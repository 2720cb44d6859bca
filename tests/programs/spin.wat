;; Loops for ever.
(component
  (core module $m
    (func (export "run") (loop (br 0))))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
