// Runs flows over fixed paths with SimGrid (S4U) under plain max-min sharing, and prints when each flow ends and how long that took.
//
//   side_by_side INPUT LIMIT_S [--cfg=...]
//
// INPUT, as compare.py writes it (numbers parted by white space):
//
//   LINKS                               a directed link a line:
//   CAPACITY                              bytes per second
//   FLOWS                               a flow a line, all start at 0:
//   BYTES HOPS LINK...                    size, length of its path, the links of its path
//
// Output: `flow I END_S` a flow that ended, and one line
// `summary platform_s=... wall_s=... cpu_s=... clock_s=... finished=... flows=...`, where wall and processor time are those of starting
// the flows and solving, without reading and building. Exit code 3: stopped after LIMIT_S of processor time.
//
// The platform. SimGrid routes by pairs of hosts, but two flows of one pair may take two paths. So each flow has an end point of its
// own in a star zone, whose way up is the flow's path; all send to one sink, whose way down is empty:
//
//   flow 0 --- links of its path ---.
//   flow 1 --- links of its path ---+--- sink
//   ...                             '
//
// The hosts' own links are part of the paths, so what is shared is what Weft shares; routes take memory in proportion to the flows.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg4 = simgrid::s4u;

namespace {

constexpr int EXIT_LIMIT = 3;

struct Flow {
    uint64_t bytes;
    std::vector<uint32_t> path;
};

struct Input {
    std::vector<double> capacity; // bytes per second, by link
    std::vector<Flow> flows;
};

struct Platform {
    std::vector<sg4::Host*> sources; // by flow
    sg4::Host* sink;
};

class Stopwatch {
    std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
    std::clock_t cpu_                           = std::clock();

public:
    double wall_s() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count(); }
    double cpu_s() const { return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC; }
};

template <class T> T take(std::istream& in, const char* what)
{
    T value;
    if (!(in >> value)) throw std::runtime_error(std::string("the input ends, or is no number, where this is expected: ") + what);
    return value;
}

Input read(const char* file)
{
    std::ifstream in(file);
    if (!in) throw std::runtime_error(std::string("cannot read ") + file);
    Input input;
    input.capacity.resize(take<size_t>(in, "the number of links"));
    for (double& capacity : input.capacity) capacity = take<double>(in, "the capacity of a link");
    input.flows.resize(take<size_t>(in, "the number of flows"));
    for (Flow& flow : input.flows) {
        flow.bytes = take<uint64_t>(in, "the bytes of a flow");
        flow.path.resize(take<size_t>(in, "the length of a path"));
        for (uint32_t& link : flow.path) {
            link = take<uint32_t>(in, "a link of a path");
            if (link >= input.capacity.size()) throw std::runtime_error("no link " + std::to_string(link));
        }
    }
    return input;
}

// CM02 with nothing but sharing. The precisions are SimGrid's own, unless --cfg= says otherwise.
void configure()
{
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");        // no window
    sg4::Engine::set_config("network/latency-factor:1");
    sg4::Engine::set_config("network/bandwidth-factor:1"); // the whole capacity
    sg4::Engine::set_config("network/weight-S:0");         // all flows weigh the same
    sg4::Engine::set_config("network/crosstraffic:0");     // ACKs take nothing
}

Platform build(const Input& input)
{
    sg4::NetZone* zone = sg4::create_star_zone("paths");
    std::vector<sg4::Link*> links;
    links.reserve(input.capacity.size());
    for (size_t i = 0; i < input.capacity.size(); i++)
        links.push_back(zone->create_link("l" + std::to_string(i), input.capacity[i])
                            ->set_latency(0)
                            ->set_sharing_policy(sg4::Link::SharingPolicy::SHARED)
                            ->seal());

    Platform platform;
    platform.sink = zone->create_host("sink", 1e9)->seal();
    zone->add_route(nullptr, platform.sink->get_netpoint(), nullptr, nullptr, {}, false);
    for (size_t i = 0; i < input.flows.size(); i++) {
        sg4::Host* source = zone->create_host("f" + std::to_string(i), 1e9)->seal();
        std::vector<sg4::LinkInRoute> path;
        for (uint32_t link : input.flows[i].path) path.emplace_back(links[link]);
        zone->add_route(source->get_netpoint(), nullptr, nullptr, nullptr, path, false);
        platform.sources.push_back(source);
    }
    zone->seal();
    return platform;
}

// The only actor: starts all flows, waits for all.
void carry(const Input& input, const Platform& platform, std::vector<sg4::CommPtr>& comms)
{
    for (size_t i = 0; i < input.flows.size(); i++)
        comms.push_back(sg4::Comm::sendto_async(platform.sources[i], platform.sink, input.flows[i].bytes));
    sg4::Comm::wait_all(comms);
}

void print(const std::vector<sg4::CommPtr>& comms, size_t flows, double platform_s, const Stopwatch& solving)
{
    const double wall_s = solving.wall_s(), cpu_s = solving.cpu_s();
    size_t finished = 0;
    for (size_t i = 0; i < comms.size(); i++) {
        const double end_s = comms[i]->get_finish_time();
        if (end_s < 0) continue;
        finished++;
        std::printf("flow %zu %.17g\n", i, end_s);
    }
    std::printf("summary platform_s=%.6f wall_s=%.6f cpu_s=%.6f clock_s=%.9g finished=%zu flows=%zu\n", platform_s, wall_s, cpu_s,
                sg4::Engine::get_clock(), finished, flows);
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv)
try {
    sg4::Engine engine(&argc, argv); // takes --cfg=... out of argv
    configure();
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s INPUT LIMIT_S [--cfg=NAME:VALUE]...\n", argv[0]);
        return 2;
    }
    const Input input = read(argv[1]);
    const double limit_s = std::atof(argv[2]);

    const Stopwatch building;
    const Platform platform = build(input);
    const double platform_s = building.wall_s();

    std::vector<sg4::CommPtr> comms;
    comms.reserve(input.flows.size());
    sg4::Actor::create("carry", platform.sink, [&] { carry(input, platform, comms); });

    const Stopwatch solving;
    sg4::Engine::on_time_advance_cb([&](double) {
        if (solving.cpu_s() < limit_s) return;
        print(comms, input.flows.size(), platform_s, solving);
        std::_Exit(EXIT_LIMIT); // the engine cannot be left from within
    });
    engine.run();
    print(comms, input.flows.size(), platform_s, solving);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
