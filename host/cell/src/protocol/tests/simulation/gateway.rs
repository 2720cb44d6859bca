//! The gateway in the simulation.

use super::*;

impl World {
    pub(super) fn start_attempt(&mut self, index: usize) {
        let now = self.time();
        let call = &self.calls[index];
        let left = (call.arrived + call.remaining_ms).saturating_sub(self.now);
        if left == 0 {
            return self.tell(index, "deadline");
        }
        let random = self.random.next();
        let gateway = &self.gateway;
        let chosen =
            self.roster.choose(&offer(), random, |name| gateway.open_at(name), |name| call.plan.is_tried(name));
        let Ok(candidate) = chosen else { return self.tell(index, "unavailable") };
        let attempt = AttemptId::from_bits((u128::from(self.random.next()) << 64) | u128::from(self.random.next()));
        let open = OpenCall {
            worker: candidate.worker.clone(),
            run: candidate.ticket.run,
            offer: offer(),
            remaining: Duration::from_millis(left),
        };
        self.gateway.open(now, attempt, open);
        self.attempts.insert(attempt, index);
        self.calls[index].attempt = Some((attempt, candidate.worker.clone()));
        let message = Message::Call { call: index, attempt, ticket: candidate.ticket, remaining_ms: left };
        self.send_in_session(&candidate.worker, message);
    }

    pub(super) fn worker_of(&self, name: &str) -> usize {
        self.workers.iter().position(|worker| &*worker.name == name).unwrap()
    }

    fn send_in_session(&mut self, name: &WorkerName, message: Message) {
        let Some((_, nonce)) = self.sessions.get(name).copied() else { return };
        let worker = self.worker_of(name);
        self.send(Event::ToWorker(worker, Down::In { nonce, message: Box::new(message) }));
    }

    /// Asks the run of an announcement, unless it is known.
    fn meet(&mut self, worker: usize, announcement: Announcement) {
        let now = self.time();
        let name = Arc::clone(&self.workers[worker].name);
        match self.introductions.on_announcement(now, &name, &announcement) {
            Introduction::Known => {
                self.roster.on_announcement(now, name, announcement);
            }
            Introduction::Ask => {
                let nonce = self.random.next();
                let run = announcement.ticket.run;
                self.introductions.on_asked(now, &name, nonce, announcement);
                self.send(Event::ToWorker(worker, Down::Hello { nonce, run }));
            }
            Introduction::Ignore => *self.tally.0.entry("announcements ignored").or_default() += 1,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn tell(&mut self, call: usize, end: &'static str) {
        self.calls[call].told.push((self.now, end));
        self.calls[call].attempt = None;
        *self.tally.0.entry(end).or_default() += 1;
    }

    pub(super) fn gateway_receives(&mut self, worker: usize, up: Up) {
        let now = self.time();
        let name = Arc::clone(&self.workers[worker].name);
        let effects = match up {
            Up::Message(message, result) => self.gateway.on_message(now, &name, &message, result),
            Up::Announcement(announcement) => return self.meet(worker, announcement),
            Up::Welcome { nonce, run } => {
                let Some(announcement) = self.introductions.on_answer(now, &name, run, nonce) else { return };
                self.sessions.insert(name.clone(), (run, nonce));
                let effects = self.gateway.on_run(&name, run);
                self.roster.on_announcement(now, name, announcement);
                effects
            }
        };
        self.carry_out(effects);
    }

    pub(super) fn carry_out(&mut self, effects: Vec<GatewayEffect<bool>>) {
        for effect in effects {
            match effect {
                GatewayEffect::Send { worker, message } => {
                    let message = match message {
                        ToWorker::Cancel { attempt } => Message::Cancel(attempt),
                        _ => Message::Alive,
                    };
                    self.send_in_session(&worker, message);
                }
                GatewayEffect::Late { attempt, .. } => {
                    assert!(self.late.insert(attempt), "a late result is recorded twice");
                    *self.tally.0.entry("late").or_default() += 1;
                }
                GatewayEffect::Conclude { attempt, conclusion } => self.conclude(attempt, &conclusion),
            }
        }
    }

    pub(super) fn conclude(&mut self, attempt: AttemptId, conclusion: &Conclusion<bool>) {
        let index = self.attempts[&attempt];
        let (current, worker) = self.calls[index].attempt.clone().expect("an end of a call that has ended");
        assert_eq!(current, attempt, "an end of an attempt that is not the last");
        if matches!(conclusion, Conclusion::Finished(true)) {
            assert!(self.calls[index].finished_ok > 0, "ok, and no guest finished");
        }
        if let (Conclusion::Interrupted(_), Some((run, _))) = (conclusion, self.sessions.get(&worker)) {
            self.introductions.forget(&worker, *run);
            self.roster.forget(&worker, *run);
        }
        if self.calls[index].plan.on_conclusion(worker, conclusion) {
            *self.tally.0.entry("sent again").or_default() += 1;
            return self.start_attempt(index);
        }
        self.tell(
            index,
            match conclusion {
                Conclusion::Finished(true) => "ok",
                Conclusion::Finished(false) => "stopped",
                Conclusion::Refused(_) => "unavailable",
                Conclusion::Interrupted(_) => "interrupted",
                Conclusion::Deadline(_) => "deadline",
                Conclusion::Cancelled(_) => "cancelled",
                _ => panic!("{conclusion:?}"),
            },
        );
    }
}
