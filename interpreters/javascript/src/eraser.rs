//! The parts of a program that are types, found by a walk over its syntax tree.

use std::collections::HashSet;

use oxc_ast::ast::{
    AccessorProperty, ArrowFunctionExpression, Class, Declaration, Expression, FormalParameter, ImportDeclaration,
    MethodDefinition, PropertyDefinition, PropertyKey, Statement, TSAsExpression, TSIndexSignature,
    TSNonNullExpression, TSSatisfiesExpression, TSThisParameter, TSTypeAnnotation, TSTypeAssertion,
    TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan as _, Span};

use crate::erasure::Erasure;

/// Words before the name of a member that only the type checker reads.
const MODIFIERS: [&str; 7] = ["abstract", "declare", "override", "private", "protected", "public", "readonly"];

/// A part of TypeScript that is more than a type.
pub(crate) struct Uncompiled {
    pub(crate) what: &'static str,
    /// Words for the JavaScript to write in its place.
    pub(crate) instead: &'static str,
    /// Its position, in bytes.
    pub(crate) at: u32,
}

/// Erases the types that it visits.
pub(crate) struct Eraser<'s> {
    erasure: Erasure<'s>,
    /// Ends of statements and members that have no semicolon. Without the type at their end, the next line could
    /// continue them.
    open_ends: HashSet<u32>,
    uncompiled: Option<Uncompiled>,
}

impl<'s> Eraser<'s> {
    pub(crate) fn new(erasure: Erasure<'s>) -> Self {
        Self { erasure, open_ends: HashSet::new(), uncompiled: None }
    }

    /// Returns the program without its types; `None` if it has none.
    pub(crate) fn finish(self) -> Result<Option<String>, Uncompiled> {
        match self.uncompiled {
            Some(uncompiled) => Err(uncompiled),
            None => Ok(self.erasure.finish()),
        }
    }

    fn refuse(&mut self, what: &'static str, instead: &'static str, span: Span) {
        self.uncompiled.get_or_insert(Uncompiled { what, instead, at: span.start });
    }

    /// Erases the end of an expression, a statement or a member.
    fn erase_end(&mut self, start: u32, end: u32) {
        self.erasure.blank(start, end);
        if self.open_ends.contains(&end) {
            let type_start = end - self.erasure.text(start, end).trim_start().len() as u32;
            self.erasure.put(type_start, b';');
        }
    }

    fn note_end(&mut self, span: Span) {
        if !self.erasure.text(span.start, span.end).ends_with(';') {
            self.open_ends.insert(span.end);
        }
    }

    /// Erases a declaration that only the type checker reads. Returns whether it is one.
    fn erase_declaration(&mut self, declaration: &Declaration<'_>, whole: Span) -> bool {
        let is_type = match declaration {
            Declaration::TSTypeAliasDeclaration(_)
            | Declaration::TSInterfaceDeclaration(_)
            | Declaration::TSGlobalDeclaration(_)
            | Declaration::TSExternalModuleDeclaration(_) => true,
            Declaration::VariableDeclaration(it) => it.declare,
            Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
            Declaration::ClassDeclaration(it) => it.declare,
            Declaration::TSEnumDeclaration(it) if !it.declare => {
                self.refuse("`enum`", "write an object, such as `const Color = {Red: 0, Green: 1}`", it.span);
                false
            }
            Declaration::TSNamespaceDeclaration(it) if !it.declare => {
                self.refuse("`namespace`", "write an object", it.span);
                false
            }
            Declaration::TSEnumDeclaration(_) | Declaration::TSNamespaceDeclaration(_) => true,
            Declaration::TSImportEqualsDeclaration(it) => {
                self.refuse("`import … =`", "programs have no modules", it.span);
                false
            }
        };
        if is_type {
            self.erasure.blank_statement(whole);
        }
        is_type
    }

    /// Erases the modifiers between the start of a member and its name.
    fn erase_modifiers(&mut self, start: u32, name: u32) {
        let text = self.erasure.text(start, name);
        let words = text.split(|character: char| !character.is_ascii_alphabetic());
        for word in words.filter(|word| MODIFIERS.contains(word)) {
            let offset = word.as_ptr() as usize - text.as_ptr() as usize;
            let at = start + offset as u32;
            self.erasure.blank(at, at + word.len() as u32);
            if offset == 0 {
                // The name may be computed, and would then continue the member before.
                self.erasure.put(at, b';');
            }
        }
    }

    /// Erases the `?` or `!` between a name and its type or value.
    fn erase_mark(&mut self, name: u32, type_annotation: Option<&TSTypeAnnotation<'_>>, end: u32, mark: char) {
        let end = type_annotation.map_or(end, |annotation| annotation.span.start);
        self.erasure.blank_character(name, end, mark);
    }

    /// Erases the parts of a property that are not its name, its type and its value.
    fn erase_property_marks(
        &mut self,
        (span, key, is_computed): (Span, &PropertyKey<'_>, bool),
        type_annotation: Option<&TSTypeAnnotation<'_>>,
        (optional, definite): (bool, bool),
    ) {
        let key = key.span();
        let start = if is_computed { key.start.saturating_sub(1) } else { key.start };
        self.erase_modifiers(span.start, start);
        for (mark, _) in [('?', optional), ('!', definite)].into_iter().filter(|(_, is_there)| *is_there) {
            self.erase_mark(key.end, type_annotation, span.end, mark);
        }
        self.note_end(span);
    }

    /// Erases what stands behind an expression.
    fn erase_behind(&mut self, expression: &Expression<'_>, span: Span) {
        self.erase_end(expression.span().end, span.end);
    }

    /// Erases the type parameters and the type of the result of an arrow function. A line break before the arrow, or
    /// between `async` and the parameters, is not allowed in JavaScript, so that brackets move where types have some.
    fn erase_arrow_types(&mut self, it: &ArrowFunctionExpression<'_>) {
        if let Some(types) = it.type_parameters.as_ref().map(|types| types.span)
            && it.r#async
            && self.erasure.has_line_break(it.span.start, it.params.span.start)
        {
            self.erasure.blank_character(types.end, it.params.span.start + 1, '(');
            self.erasure.put(types.start, b'(');
        }
        if let Some(result) = it.return_type.as_ref().map(|result| result.span)
            && self.erasure.has_line_break(result.start, result.end)
            && let Some(bracket) = self.erasure.text(it.params.span.start, result.start).rfind(')')
        {
            let bracket = it.params.span.start + bracket as u32;
            self.erasure.blank(bracket, bracket + 1);
            let last = self.erasure.text(result.start, result.end).chars().next_back().map_or(1, char::len_utf8);
            self.erasure.put(result.end - last as u32, b')');
        }
    }
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        self.note_end(it.span());
        let is_erased = match it {
            Statement::ExportDeclaration(export) => self.erase_declaration(&export.declaration, export.span),
            Statement::ExportNamedDeclaration(export) if export.export_kind.is_type() => {
                self.erasure.blank_statement(export.span);
                true
            }
            _ => it.as_declaration().is_some_and(|declaration| self.erase_declaration(declaration, it.span())),
        };
        if !is_erased {
            walk::walk_statement(self, it);
        }
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if it.import_kind.is_type() {
            self.erasure.blank_statement(it.span);
        }
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.erase_end(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.erasure.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.erase_end(it.span.start, it.span.end);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_behind(&it.expression, it.span);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_behind(&it.expression, it.span);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.erase_behind(&it.expression, it.span);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.erasure.blank(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.erase_mark(it.id.span().end, it.type_annotation.as_deref(), it.span.end, '!');
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            self.refuse("a modifier of a constructor's parameter", "declare a field, and assign it", it.span);
        }
        if it.optional {
            let end = it.initializer.as_ref().map_or(it.span.end, |value| value.span().start);
            self.erase_mark(it.pattern.span().end, it.type_annotation.as_deref(), end, '?');
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.erasure.blank(it.span.start, it.span.end);
        let rest = self.erasure.rest(it.span.end);
        let after = rest.trim_start();
        if after.starts_with(',') {
            let comma = it.span.end + (rest.len() - after.len()) as u32;
            self.erasure.blank(comma, comma + 1);
        }
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        walk::walk_arrow_function_expression(self, it);
        self.erase_arrow_types(it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.r#abstract {
            let head = self.erasure.text(it.span.start, it.body.span.start);
            if let Some(at) = head.find("abstract") {
                let at = it.span.start + at as u32;
                self.erasure.blank(at, at + "abstract".len() as u32);
            }
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let head = self.erasure.text(it.span.start, first.span.start);
            if let Some(at) = head.rfind("implements") {
                self.erasure.blank(it.span.start + at as u32, last.span.end);
            }
        }
        walk::walk_class(self, it);
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.value.body.is_none() {
            return self.erasure.blank_statement(it.span);
        }
        let start = it.key.span().start;
        self.erase_modifiers(it.span.start, if it.computed { start.saturating_sub(1) } else { start });
        if it.optional {
            self.erasure.blank_character(it.key.span().end, it.value.params.span.start, '?');
        }
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type.is_abstract() {
            return self.erasure.blank_statement(it.span);
        }
        let marks = (it.optional, it.definite);
        self.erase_property_marks((it.span, &it.key, it.computed), it.type_annotation.as_deref(), marks);
        walk::walk_property_definition(self, it);
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        if it.r#type.is_abstract() {
            return self.erasure.blank_statement(it.span);
        }
        let marks = (false, it.definite);
        self.erase_property_marks((it.span, &it.key, it.computed), it.type_annotation.as_deref(), marks);
        walk::walk_accessor_property(self, it);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.erasure.blank_statement(it.span);
    }
}
