//! Replay of earlier results, within the window of a channel.

use super::*;

/// Runs a message at the first second, and another at `later`, in a channel. Returns the number of replayed messages.
async fn replayed(channel: Channel, context: ChannelContext, later: u64) -> usize {
    let time = Arc::new(Mutex::new(Timestamp(1_000)));
    let clock = Arc::clone(&time);
    let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || *clock.lock().unwrap());
    let for_pipeline = Arc::clone(&clock);
    let allowlists = Allowlists {
        channels: [("desk".to_owned(), channel)].into(),
        key: EnvelopeKey::new([1; 32]).ok(),
        ..everything()
    };
    let envelope = allowlists.seal("desk", context).unwrap();
    let asked = Arc::new(Asked::default());
    let script = Arc::clone(&asked);
    let model = Arc::new(move |request: &Request| {
        let mut asked = script.0.lock().unwrap();
        asked.push(request.clone());
        let call = crate::pipeline::stage::intent("c", "echo", r#"{"text": "first"}"#);
        Ok(if asked.len() == 1 { Response::calls(vec![call]) } else { Response::text("ok") })
    });
    let builder = agent_with(Skill::new(), model, &Arc::default(), |builder| {
        builder.allowlists(allowlists).clock(Arc::new(move || for_pipeline()))
    });
    let scope = Scope { envelope: Some(envelope.into()), ..Scope::default() };
    let mut agent = builder.scope(scope).clock(Arc::new(move || clock())).build().unwrap();
    agent.run("one").await.unwrap();
    time.lock().unwrap().0 += later;
    agent.run("two").await.unwrap();
    let asked = asked.0.lock().unwrap();
    asked[2].messages.iter().filter(|message| message.tool_execution_id.is_some()).count()
}

#[tokio::test]
async fn window_of_replay_is_that_of_the_channel() {
    fn short() -> Channel {
        channel().replay_freshness(Duration::from_secs(10))
    }

    fn channel() -> Channel {
        Channel::new(["echo"])
    }

    let open = ChannelContext::default;
    // 300 s unless a channel says otherwise, and its edge is within.
    assert_eq!(replayed(channel(), open(), 300_000).await, 2);
    assert_eq!(replayed(channel(), open(), 300_001).await, 0);
    assert_eq!(replayed(short(), open(), 10_000).await, 2);
    assert_eq!(replayed(short(), open(), 10_001).await, 0);
    let long = channel().replay_freshness(Duration::from_secs(3600));
    assert_eq!(replayed(long, open(), 3_600_000).await, 2);
    assert_eq!(replayed(channel().replay_freshness(Duration::ZERO), open(), 0).await, 0);
    // The context of the moment goes before the settings.
    let context = ChannelContext { replay_freshness: Some(Duration::from_secs(20)), ..open() };
    assert_eq!(replayed(short(), context, 20_000).await, 2);
    // A context that has expired lets nothing be called and nothing be replayed.
    let expired = ChannelContext { expires: Some(Timestamp(1_500)), ..open() };
    assert_eq!(replayed(channel(), expired, 1_000).await, 0);
}
