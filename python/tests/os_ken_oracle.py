"""OpenFlow messages as os-ken reads and writes them. A program of its own, with os-ken's packages alone on its path.

`decode`: for each line of stdin, a message in hexadecimal, a line of JSON: the message, and its bytes when written again.
`build`: a line of JSON, the bytes by name: what the scheduler sends and os-ken has no correct reader for.
"""

import json
import sys
from typing import Any

from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_3, ofproto_v1_3_parser, ofproto_v1_5, ofproto_v1_5_parser

XID = 5
NETRONOME = 0x154D


def decode(hexadecimal: str) -> dict[str, Any]:
    data = bytes.fromhex(hexadecimal)
    version, kind, length, xid = ofproto_parser.header(data)
    switch = ofproto_protocol.ProtocolDesc(version=version)
    message = ofproto_parser.msg(switch, version, kind, length, xid, data)
    if message is None:
        return {"message": None, "bytes": None}
    values = message.to_jsondict()
    again = ofproto_parser.ofp_msg_from_jsondict(switch, values)
    return {"message": values, "bytes": written(again, xid)}


def written(message: Any, xid: int) -> str | None:
    message.set_xid(xid)
    try:
        message.serialize()
    except NotImplementedError:  # of messages that a switch alone sends
        return None
    return bytes(message.buf).hex()


def build() -> dict[str, str | None]:
    switch = ofproto_protocol.ProtocolDesc(version=4)
    ofp, parser = ofproto_v1_3, ofproto_v1_3_parser
    buckets = [parser.OFPBucket(weight=1, watch_port=port, actions=[parser.OFPActionOutput(port, 0)]) for port in (11, 12)]
    plain = parser.OFPGroupMod(switch, ofp.OFPGC_ADD, ofp.OFPGT_SELECT, 7, buckets)

    switch = ofproto_protocol.ProtocolDesc(version=6)
    ofp, parser = ofproto_v1_5, ofproto_v1_5_parser
    buckets = []
    for bucket, port in ((0, 11), (1, 12)):
        weight = parser.OFPGroupBucketPropWeight(type_=ofp.OFPGBPT_WEIGHT, weight=1)
        watch = parser.OFPGroupBucketPropWatch(type_=ofp.OFPGBPT_WATCH_PORT, watch=port)
        buckets.append(parser.OFPBucket(bucket, [parser.OFPActionOutput(port, 0)], [weight, watch]))
    name = [int.from_bytes(b"dp_h", "big"), int.from_bytes(b"ash\0", "big"), 0, 0]
    method = parser.OFPGroupPropExperimenter(ofp.OFPGPT_EXPERIMENTER, None, NETRONOME, 1, [0, *name, 0, 7])
    hashed = parser.OFPGroupMod(switch, ofp.OFPGC_ADD, ofp.OFPGT_SELECT, 7, ofp.OFPG_BUCKET_ALL, buckets, [method])
    return {"4 uplinks": written(plain, XID), "6 uplinks_dp_hash": written(hashed, XID)}


if sys.argv[1] == "build":
    print(json.dumps(build()))
else:
    for line in sys.stdin:
        print(json.dumps(decode(line)))
