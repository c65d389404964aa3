//! How fast a route is asked: so many requests at once, so many in a minute, none while the server
//! wants rest.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whet_capability::HostCall;

/// How often a waiting call looks whether it is cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// The pace of one route.
#[derive(Debug)]
pub struct Pace {
    free: Mutex<usize>,
    left: Condvar,
    /// Between the beginnings of two requests.
    interval: Duration,
    /// When the next request may begin.
    next: Mutex<Instant>,
}

/// One of the requests at once; given back on drop.
pub struct Place<'p>(&'p Pace);

impl Pace {
    pub fn new(concurrency: usize, requests_per_minute: Option<u32>) -> Self {
        let interval = requests_per_minute.map(|n| Duration::from_secs(60) / n.max(1));
        Pace {
            free: Mutex::new(concurrency.max(1)),
            left: Condvar::new(),
            interval: interval.unwrap_or_default(),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits until a request may begin; `None` when that is after the call's deadline.
    pub fn enter(&self, call: &HostCall<'_>) -> Option<Place<'_>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            let patience = call.patience();
            if patience.is_zero() {
                return None;
            }
            free =
                self.left.wait_timeout(free, patience.min(GLANCE)).unwrap_or_else(PoisonError::into_inner).0;
        }
        *free -= 1;
        drop(free);
        let place = Place(self);
        let begin = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = (*next).max(Instant::now());
            if begin > call.deadline {
                return None;
            }
            *next = begin + self.interval;
            begin
        };
        let wait = begin.saturating_duration_since(Instant::now());
        let cancelled = call.cancel.sleep(wait);
        (!cancelled).then_some(place)
    }

    /// Lets no request begin before `time` has passed.
    pub fn rest(&self, time: Duration) {
        let Some(until) = Instant::now().checked_add(time) else { return };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = (*next).max(until);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.left.notify_one();
    }
}
