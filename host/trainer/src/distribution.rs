//! What the policy says of the tokens of a batch, beyond their log-probabilities.

use crate::batch::to_list;
use crate::body::pack;
use crate::frozen::check;
use crate::head::Head;
use crate::layout::{Forest, Layout};
use crate::{TrainError, TrainSample, Trainer};

/// Numbers of the distributions that a sample's tokens were drawn from, one per token; 0 where not trained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Log-probability of the token.
    pub log_prob: Vec<f64>,
    /// Entropy, in nats.
    pub entropy: Vec<f64>,
    /// `Σ p²` over the vocabulary; empty unless asked for.
    pub squares: Vec<f64>,
}

impl Trainer {
    /// The tempered distributions of every trained token, under the weights as they are; `squares` costs another look
    /// at every logit.
    ///
    /// # Errors
    /// When a sample is malformed.
    pub fn distributions(
        &self,
        samples: &[TrainSample],
        temperature: f64,
        squares: bool,
    ) -> Result<Vec<Distribution>, TrainError> {
        check(samples, self.body.config())?;
        let zeros = |s: &TrainSample| vec![0.0; s.tokens.len()];
        let mut found: Vec<Distribution> = samples
            .iter()
            .map(|s| Distribution {
                log_prob: zeros(s),
                entropy: zeros(s),
                squares: if squares { zeros(s) } else { Vec::new() },
            })
            .collect();
        let trained: Vec<usize> = (0..samples.len()).filter(|&s| samples[s].trained() > 0).collect();
        let forest = Forest::new(samples, &trained);
        for part in forest.cut(samples, self.options.micro_batch_tokens) {
            let layout = Layout::new(samples, &forest, part);
            let hidden = self.body.hidden(&pack(&layout, self.options.device)?, &layout)?;
            let head = Head::new(&self.head, temperature, &layout);
            let log_probs = head.forward(&hidden);
            let (values, entropy) = (to_list(&log_probs.targets)?, to_list(&log_probs.entropy)?);
            let sums = if squares { to_list(&head.squares(&hidden, &log_probs))? } else { Vec::new() };
            for (n, target) in layout.targets.iter().enumerate() {
                let of = &mut found[target.sample];
                of.log_prob[target.position] = values[n];
                of.entropy[target.position] = entropy[n];
                if squares {
                    of.squares[target.position] = sums[n];
                }
            }
        }
        Ok(found)
    }
}
