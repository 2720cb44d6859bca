//! The workers in the simulation.

use super::*;

impl World {
    pub(super) fn worker_step(&mut self, index: usize, event: Event) {
        let now = self.time();
        match event {
            Event::WorkerTick(_) => {
                for effect in self.workers[index].calls.on_tick(now) {
                    match effect {
                        WorkerEffect::Send { message, .. } => {
                            self.send(Event::ToGateway(index, Up::Message(message, None)))
                        }
                        WorkerEffect::Cancel(attempt) => {
                            if self.workers[index].guests.get(&attempt).is_some_and(|guest| !guest.hangs) {
                                self.end_guest(index, attempt, false);
                            }
                        }
                    }
                }
                self.at(self.now + 10, Event::WorkerTick(index));
            }
            Event::Announce(_) => {
                let worker = &mut self.workers[index];
                worker.announced += 1;
                let announcement = Announcement {
                    version: PROTOCOL_VERSION,
                    sequence: worker.announced,
                    ticket: worker.calls.ticket(),
                    places: PLACES as u32,
                    running: worker.calls.running() as u32,
                    draining: false,
                    offers: vec![offer()],
                };
                self.send(Event::ToGateway(index, Up::Announcement(announcement)));
                self.at(self.now + ANNOUNCE_EVERY.as_millis() as u64, Event::Announce(index));
            }
            Event::GuestEnds { run, attempt, ok, .. } if run == self.workers[index].run => {
                self.end_guest(index, attempt, ok);
            }
            Event::ToWorker(_, down) => self.worker_receives(index, &down),
            _ => {}
        }
    }

    pub(super) fn worker_receives(&mut self, index: usize, down: &Down) {
        let now = self.time();
        let gateway: Arc<str> = "g".into();
        let worker = &mut self.workers[index];
        let message = match down {
            Down::Hello { nonce, run } if *run == worker.run => {
                worker.sessions.insert(*nonce);
                return self.send(Event::ToGateway(index, Up::Welcome { nonce: *nonce, run: *run }));
            }
            Down::In { nonce, message } if worker.sessions.contains(nonce) => message,
            _ => return,
        };
        match **message {
            Message::Alive => worker.calls.on_alive(now, &gateway),
            Message::Cancel(attempt) => {
                let hangs = worker.guests.get(&attempt).is_some_and(|guest| guest.hangs);
                if worker.calls.on_cancel(now, &gateway, attempt) && !hangs {
                    self.end_guest(index, attempt, false);
                }
            }
            Message::Call { call, attempt, ticket, remaining_ms } => {
                match worker.calls.on_call(now, &gateway, attempt, ticket, true) {
                    Admission::Ignore => {}
                    Admission::Refuse(reason) => {
                        let message = ToGateway::Refused { attempt, reason };
                        self.send(Event::ToGateway(index, Up::Message(message, None)));
                    }
                    Admission::Run => {
                        let run = worker.run;
                        let hangs = self.random.is(3);
                        worker.guests.insert(attempt, Guest { call, hangs });
                        self.calls[call].guests += 1;
                        let lasts = if self.random.is(70) { self.random.below(15) } else { self.random.below(3_000) };
                        let ok = lasts < remaining_ms && !hangs;
                        let ends = if hangs { HANGS_MS } else { lasts.min(remaining_ms) };
                        self.at(self.now + ends, Event::GuestEnds { worker: index, run, attempt, ok });
                    }
                }
            }
        }
    }

    pub(super) fn end_guest(&mut self, index: usize, attempt: AttemptId, ok: bool) {
        let worker = &mut self.workers[index];
        let Some(guest) = worker.guests.remove(&attempt) else { return };
        self.calls[guest.call].finished_ok += u32::from(ok);
        if worker.calls.on_ended(attempt).is_some() {
            let message = ToGateway::Ended { attempt, offer: offer() };
            self.send(Event::ToGateway(index, Up::Message(message, Some(ok))));
        }
    }
}
