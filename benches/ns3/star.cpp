// TCP flows over links between hosts and switches, as the packet world of Weft carries them. Compiled by cppyy against the ns-3 of the Python package.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <map>
#include <vector>

namespace weft {
using namespace ns3;

struct Flow { uint32_t src, dst; double start; uint64_t bytes; };
struct Link { uint32_t a, b; uint64_t bps; double delay; };

static std::vector<uint64_t> got;
static std::vector<uint64_t> want;
static std::vector<double> ended;
static uint64_t dropped;
static uint64_t left;

static void Received(uint32_t flow, Ptr<const Packet> packet, const Address &) {
    got[flow] += packet->GetSize();
    if (got[flow] >= want[flow] && ended[flow] < 0) {
        ended[flow] = Simulator::Now().GetSeconds();
        if (--left == 0) Simulator::Stop();
    }
}

static void Dropped(Ptr<const Packet>) { dropped++; }

// `control` is the TypeId of the congestion control. With SACK a loss is recovered as in RFC 6675, with limited transmit.
void Configure(uint32_t mss, uint32_t window, std::string control, bool sack) {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName(control)));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpClassicRecovery")));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(sack));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(sack));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(NanoSeconds(1)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(Seconds(1)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window * mss));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window * mss));
}

void Run(uint32_t hosts, uint32_t nodes_, std::vector<Link> links, std::vector<Flow> flows, uint32_t queue, uint32_t nic, double until) {
    NodeContainer nodes;
    nodes.Create(nodes_);
    InternetStackHelper stack;
    stack.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    std::map<uint32_t, Ipv4Address> address;
    dropped = 0;
    for (auto &link : links) {
        PointToPointHelper p2p;
        p2p.SetDeviceAttribute("DataRate", DataRateValue(DataRate(link.bps)));
        p2p.SetChannelAttribute("Delay", TimeValue(Seconds(link.delay)));
        auto devices = p2p.Install(nodes.Get(link.a), nodes.Get(link.b));
        for (int i = 0; i < 2; i++) {
            auto device = DynamicCast<PointToPointNetDevice>(devices.Get(i));
            uint32_t from = i == 0 ? link.a : link.b;
            auto q = CreateObject<DropTailQueue<Packet>>();
            q->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, from < hosts ? nic : queue));
            device->SetQueue(q);
            q->TraceConnectWithoutContext("Drop", MakeCallback(&Dropped));
        }
        auto interfaces = addresses.Assign(devices);
        TrafficControlHelper().Uninstall(devices);
        addresses.NewNetwork();
        for (int i = 0; i < 2; i++) {
            uint32_t from = i == 0 ? link.a : link.b;
            if (from < hosts) address[from] = interfaces.GetAddress(i);
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    got.assign(flows.size(), 0);
    want.clear();
    ended.assign(flows.size(), -1);
    left = flows.size();
    for (uint32_t f = 0; f < flows.size(); f++) {
        auto &flow = flows[f];
        want.push_back(flow.bytes);
        uint16_t port = 10000 + f;
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        auto app = sink.Install(nodes.Get(flow.dst));
        app.Get(0)->TraceConnectWithoutContext("Rx", MakeBoundCallback(&Received, f));
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(address[flow.dst], port));
        bulk.SetAttribute("MaxBytes", UintegerValue(flow.bytes));
        bulk.SetAttribute("SendSize", UintegerValue(1u << 16));
        bulk.Install(nodes.Get(flow.src)).Start(Seconds(flow.start));
    }
    Simulator::Stop(Seconds(until));
    Simulator::Run();
    Simulator::Destroy();
}
} // namespace weft
