"""The standard deviation, over all clients, of the accuracy on each client's own test images, from the study `clients`. With a
`baseline` the difference to the baseline's."""

import math

from fedrepro.report.quantities._study import ClientsQuantity
from fedrepro.report.statistics import mean


class Quantity(ClientsQuantity):
    title = "standard deviation of accuracy over clients"

    def of_clients(self, accuracies: list[float]) -> float:
        centre = mean(accuracies)
        return math.sqrt(mean([(accuracy - centre) ** 2 for accuracy in accuracies]))
