"""The mean accuracy of the worst tenth of the clients, each on its own test images, from the study `clients`: a tenth of their
number, rounded up. With a `baseline` the lead over the baseline's."""

from fedrepro.report.quantities._study import ClientsQuantity
from fedrepro.report.statistics import mean


class Quantity(ClientsQuantity):
    title = "mean accuracy of the worst tenth of clients"

    def of_clients(self, accuracies: list[float]) -> float:
        return mean(accuracies[: -(-len(accuracies) // 10)])
