from suite.record.record import Record


def is_disturbed(record: Record) -> bool:
    return "disturbed" in record.flags


def find_disturbances(record: Record) -> tuple[str, ...]:
    return ("other processes took 50 % of the cores",) if is_disturbed(record) else ()
