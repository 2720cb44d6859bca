;; Imports something that no host of ours has.
(component
  (import "acme:database/sql@1.0.0" (instance $sql
    (export "query" (func (param "text" string) (result u32)))))
  (core module $m (func (export "run")))
  (core instance $i (instantiate $m))
  (func (export "run") (canon lift (core func $i "run"))))
