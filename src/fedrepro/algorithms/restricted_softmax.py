"""FedAvg whose local softmax runs over the client's classes: the restriction that trimming gives
clients of Psi-Net, alone.

Local loss of client k, which has images of the classes C_k: the mean over a batch of -log(exp(z_y)
/ sum_{c in C_k} exp(z_c)), z the scores and y the label. Scores of absent classes have no gradient.
Li and Zhan, FedRS, KDD 2021, multiply them by alpha instead, so that even alpha = 0 leaves exp(0)
for each in the sum; here they are left out, as with psi_net's `softmax: held` and one group for
each class. Networks are tested with all classes.

The server averages all weights over all participants, also those of a class's score over clients
without that class. Of these, weight decay and momentum are the only changes. A client of one class
has a loss of zero and trains nothing.
"""

import torch
from torch import Tensor

from fedrepro.algorithms.base import Batch, Client, FedAvg, Weights
from fedrepro.models import Net, Outputs


class RestrictedSoftmax(FedAvg):
    def wrap_net(self, net: Net, generator: torch.Generator) -> Net:
        self.task.require_class_scores("algorithm restricted_softmax")
        return net

    def prepare(self, received: Weights, client: Client) -> Weights:
        """Return the mask (classes,) of the classes that the local softmax leaves out."""
        return {"absent": client.classes() == 0}

    def task_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        held = outputs.logits.masked_fill(batch.constants["absent"], -torch.inf)
        return super().task_loss(outputs._replace(logits=held), batch)
