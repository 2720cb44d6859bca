;; Uses a proposal that is turned off: threads.
(component
  (core module $m
    (memory 1 1 shared)
    (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
