from workloads.data.dataset import DataSet


def generate(name: str) -> DataSet:
    raise NotImplementedError
