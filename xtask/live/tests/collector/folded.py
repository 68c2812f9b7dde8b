"""What the file exporter of a collector wrote of profiles, as one line for each sample.

    folded.py FILE
    12 cpython:<module>:26;cpython:main:22;cpython:much:12;cpython:spin:7

    folded.py FILE kinds
    inuse_space bytes 400 40000 native:main:0;native:plain:0

How many events, then the frames, the root first: type, function and line. Before them the kind of samples and its unit, and between the
two the sum of the values.
"""
import json
import sys


def number(message, field):
    return int(message.get(field, 0))


class Tables(object):
    def __init__(self, tables):
        self.tables = tables

    def text(self, message, field):
        return self.tables["stringTable"][number(message, field)]

    def attribute(self, message, key):
        for index in message.get("attributeIndices", []):
            found = self.tables["attributeTable"][index]
            if self.text(found, "keyStrindex") == key:
                return found["value"]["stringValue"]
        return "?"

    def frames(self, index):
        location = self.tables["locationTable"][index]
        kind = self.attribute(location, "profile.frame.type")
        for line in reversed(location.get("lines", [])):
            function = self.tables["functionTable"][number(line, "functionIndex")]
            yield "%s:%s:%d" % (kind, self.text(function, "nameStrindex"), number(line, "line"))

    def stack(self, index):
        locations = self.tables["stackTable"][index].get("locationIndices", [])
        return ";".join(frame for location in reversed(locations) for frame in self.frames(location))


def samples(message, tables):
    for resource in message["resourceProfiles"]:
        for scope in resource["scopeProfiles"]:
            for profile in scope["profiles"]:
                kind = profile["sampleType"]
                name = "%s %s" % (tables.text(kind, "typeStrindex"), tables.text(kind, "unitStrindex"))
                for sample in profile["samples"]:
                    yield name, sample


with open(sys.argv[1]) as lines:
    for line in lines:
        # The last one may be cut, where the collector was.
        if line.endswith("\n"):
            message = json.loads(line)
            tables = Tables(message["dictionary"])
            for kind, sample in samples(message, tables):
                count, stack = len(sample["timestampsUnixNano"]), tables.stack(number(sample, "stackIndex"))
                if len(sys.argv) > 2:
                    print(kind, count, sum(int(value) for value in sample.get("values", [])), stack)
                else:
                    print(count, stack)
