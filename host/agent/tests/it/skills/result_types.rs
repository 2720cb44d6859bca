//! Types of results: of skills, and of runs.

use super::*;

#[tokio::test]
async fn result_of_a_skill_matches_its_schema_or_ends_the_run() {
    fn sum() -> serde_json::Value {
        json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]})
    }

    fn skill_returning(schema: serde_json::Value) -> Skill {
        tool_skill("echo").output_schema(OutputSchema::new(schema).unwrap())
    }

    let ending = run(skill_returning(sum()), r#"{"text": "{ \"sum\": 8 }"}"#, |it| it).await;
    assert_eq!(ending, answered(r#"{"sum":8}"#));
    let ending = run(skill_returning(sum()), r#"{"text": "{\"sum\": \"8\"}"}"#, |it| it).await;
    assert!(matches!(&ending, Ending::InvalidAnswer { message, .. } if message.contains("sum")), "{ending:?}");
    let ending = run(skill_returning(json!({"type": "string"})), "8 in words", |it| it).await;
    assert_eq!(ending, answered(r#""8 in words""#), "a text is a string");
}

#[tokio::test]
async fn answer_of_a_model_under_a_typed_skill_is_a_value_of_the_type() {
    fn skill() -> Skill {
        Skill::new().component_tool("add").returns::<Sum>().unwrap()
    }

    let asked = Arc::new(Asked::default());
    let model = asked.model(&["It is 8.", r#"{"sum": "8"}"#, r#"{"sum": 8}"#]);
    let mut agent = agent_with(skill(), model, &Arc::default(), |it| it).build().unwrap();
    assert_eq!(agent.run_as::<Sum>("What is 3 + 5?").await.unwrap(), Sum { sum: 8 });
    assert_eq!(asked.requests(), 3, "it was asked to correct its answer twice");
    assert!(asked.0.lock().unwrap()[0].messages[0].content.contains("\"sum\""), "the model is told the schema");

    let asked = Arc::new(Asked::default());
    let model = asked.model(&["8", "8", "8"]);
    let mut agent = agent_with(skill(), model, &Arc::default(), |it| it).build().unwrap();
    let error = agent.run_as::<Sum>("What is 3 + 5?").await.unwrap_err();
    let TypedRunError::NoAnswer(outcome) = error else { panic!("{error:?}") };
    assert!(matches!(outcome.ending, Ending::InvalidAnswer { .. }));
}

#[tokio::test]
async fn type_of_a_run_is_its_schema_unless_the_skill_has_one() {
    let asked = Arc::new(Asked::default());
    let model = asked.model(&["eight", r#"{"sum": 8}"#, "prose"]);
    let mut agent = agent_with(Skill::new(), model, &Arc::default(), |it| it).build().unwrap();
    assert_eq!(agent.run_as::<Sum>("3 + 5").await.unwrap(), Sum { sum: 8 });
    assert_eq!(agent.run("3 + 5").await.unwrap().text(), "prose", "the type is that of one run");

    let skill = tool_skill("add").returns::<i64>().unwrap();
    let mut agent = agent_with(skill, asked.model(&[]), &Arc::default(), |it| it).build().unwrap();
    assert_eq!(agent.run_as::<i64>(r#"{"a": 3, "b": 5}"#).await.unwrap(), 8);
    let error = agent.run_as::<Sum>(r#"{"a": 3, "b": 5}"#).await.unwrap_err();
    assert!(matches!(&error, TypedRunError::Type { .. }), "{error:?}");
}
