use looptree::AgentEvent;
use looptree::drive::perform::{CallProgress, Decision, Live, Performer};
use looptree::journal::AppliedInput;
use looptree::run::{Input, Misplaced, PendingCall, Run, Step};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Drives a run on the calling thread. `record` receives each input before the driver acts on it.
pub struct BlockingDriver<R, D> {
    pub performer: Performer,
    pub run: Run,
    pub record: R,
    pub deliver: D,
}

impl<R: FnMut(&mut Run, AppliedInput) + Send, D: FnMut(&AgentEvent) + Send> BlockingDriver<R, D> {
    /// Performs the steps of the run until it ends or waits for an answer.
    pub fn drive(&mut self) -> Result<(), Misplaced> {
        loop {
            self.apply_queued()?;
            if let Some(abort) = self.performer.interruption(&self.run) {
                self.apply(abort)?;
                continue;
            }
            match self.run.next() {
                Step::Done(_) => return Ok(()),
                Step::AwaitAnswer { .. } => return self.apply(Input::Suspended),
                Step::CallModel { .. } => self.call_model()?,
                Step::RunTools { calls, .. } => self.run_tools(calls)?,
                _ => block_on(self.performer.perform(&self.run)).map_or(Ok(()), |input| self.apply(input))?,
            }
        }
    }

    /// Applies an input, records it, and delivers its events.
    pub fn apply(&mut self, input: Input) -> Result<(), Misplaced> {
        // Time that was not the run's, for example because the machine was suspended.
        let (mut events, idle) = (Vec::new(), self.performer.idle(&self.run));
        for applied in idle.into_iter().chain([self.performer.stamp(input)]) {
            self.performer.apply(&mut self.run, applied.clone(), &mut events)?;
            (self.record)(&mut self.run, applied);
        }
        for event in events {
            (self.deliver)(&event);
            self.performer.observe(&self.run, &event);
        }
        Ok(())
    }

    /// Applies the queued messages. A run that has ended accepts none.
    fn apply_queued(&mut self) -> Result<(), Misplaced> {
        let queued = self.run.ended().is_none().then(|| self.performer.queued());
        queued.into_iter().flatten().try_for_each(|input| self.apply(input))
    }

    /// Calls the model and applies the start of its reply at once, before the updates.
    fn call_model(&mut self) -> Result<(), Misplaced> {
        let Some(call) = self.performer.model(&self.run) else { return Ok(()) };
        let mut started = Ok(());
        let inputs = block_on(call.perform(|live| match live {
            Live::Started(input) => started = self.apply(input),
            Live::Update(event) => (self.deliver)(&event),
            _ => {}
        }));
        started.and_then(|()| self.apply_queued())?;
        inputs.into_iter().try_for_each(|input| self.apply(input))
    }

    /// Decides about all calls, then executes the allowed ones concurrently.
    fn run_tools(&mut self, pending: Vec<PendingCall>) -> Result<(), Misplaced> {
        let mut ready = Vec::new();
        for pending in pending {
            match block_on(self.performer.decide(&self.run, &pending)) {
                Some(Decision::Execute(input, call)) => {
                    self.apply(input)?;
                    ready.push(*call);
                }
                Some(Decision::Apply(input)) => self.apply(input)?,
                _ => break,
            }
        }
        let mut calls = self.performer.calls(ready);
        while let Some(progress) = block_on(calls.next(&self.run)) {
            match progress {
                CallProgress::Update(event) => (self.deliver)(&event),
                CallProgress::Child(event) => (self.deliver)(&event.event),
                CallProgress::Ended(input, id) => {
                    self.apply_queued()?;
                    self.apply(input)?;
                    let review = block_on(self.performer.review(&self.run, &id));
                    review.map_or(Ok(()), |input| self.apply(input))?;
                }
                CallProgress::Apply(input) => self.apply(input)?,
                _ => {}
            }
        }
        Ok(())
    }
}

struct Unpark(Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on the calling thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        thread::park();
    }
}
