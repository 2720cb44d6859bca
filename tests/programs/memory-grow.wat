;; Grows its memory a page at a time until it gets no more, and says how many pages it had then.
(component
  (core module $m
    (memory 1)
    (func (export "run") (result i32)
      (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
      (memory.size)))
  (core instance $i (instantiate $m))
  (func (export "run") (result u32) (canon lift (core func $i "run"))))
