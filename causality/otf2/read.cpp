// Reads an OTF2 trace: its definitions first, then the events of one location after the other.
#ifdef CAIRN_OTF2
#include <otf2/otf2.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <ranges>
#include <string_view>
#include <unordered_map>

#include "causality/otf2/attributes.h"
#include "causality/otf2/otf2.h"
#include "causality/trace_json.h"

namespace cairn::causality {
namespace {

struct ReaderCloser {
    void operator()(OTF2_Reader* reader) const { static_cast<void>(OTF2_Reader_Close(reader)); }
};

// What the definitions say.
struct Otf2Definitions {
    struct Region {
        OTF2_StringRef name = 0, canonical = 0, file = 0;
        std::uint32_t line = 0;
        bool mpi = false;
    };
    struct Group {
        OTF2_GroupType type = OTF2_GROUP_TYPE_UNKNOWN;
        bool locations = false;  // members are locations, not ranks
        std::vector<std::uint64_t> members;
    };
    std::map<OTF2_StringRef, std::string> strings;
    std::map<OTF2_RegionRef, Region> regions;
    std::map<OTF2_GroupRef, Group> groups;
    std::map<OTF2_CommRef, OTF2_GroupRef> comms;
    std::vector<OTF2_LocationRef> locations;  // threads of processes
    std::vector<std::uint64_t> ranks;         // locations by rank
    std::map<OTF2_StringRef, OTF2_AttributeRef> attributes;
    std::uint64_t resolution = 1'000'000'000, offset = 0;

    [[nodiscard]] const std::string& string(OTF2_StringRef ref) const {
        static const std::string empty;
        const auto found = strings.find(ref);
        return found == strings.end() ? empty : found->second;
    }
};

Otf2Definitions& definitions(void* data) {
    return *static_cast<Otf2Definitions*>(data);
}

OTF2_CallbackCode on_string(void* data, OTF2_StringRef self, const char* text) {
    definitions(data).strings[self] = text;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_clock(void* data, std::uint64_t resolution, std::uint64_t offset, std::uint64_t,
                           std::uint64_t) {
    definitions(data).resolution = std::max<std::uint64_t>(resolution, 1);
    definitions(data).offset = offset;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location(void* data, OTF2_LocationRef self, OTF2_StringRef, OTF2_LocationType type,
                              std::uint64_t, OTF2_LocationGroupRef) {
    if (type == OTF2_LOCATION_TYPE_CPU_THREAD) definitions(data).locations.push_back(self);
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_group(void* data, OTF2_GroupRef self, OTF2_StringRef, OTF2_GroupType type,
                           OTF2_Paradigm paradigm, OTF2_GroupFlag flags, std::uint32_t count,
                           const std::uint64_t* members) {
    if (paradigm != OTF2_PARADIGM_MPI) return OTF2_CALLBACK_SUCCESS;
    Otf2Definitions& into = definitions(data);
    const std::vector<std::uint64_t> all(members, members + count);
    if (type == OTF2_GROUP_TYPE_COMM_LOCATIONS) into.ranks = all;
    into.groups[self] = {type, (flags & OTF2_GROUP_FLAG_GLOBAL_MEMBERS) != 0, all};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_comm(void* data, OTF2_CommRef self, OTF2_StringRef, OTF2_GroupRef group, OTF2_CommRef,
                          OTF2_CommFlag) {
    definitions(data).comms[self] = group;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_region(void* data, OTF2_RegionRef self, OTF2_StringRef name, OTF2_StringRef canonical,
                            OTF2_StringRef, OTF2_RegionRole, OTF2_Paradigm paradigm, OTF2_RegionFlag,
                            OTF2_StringRef file, std::uint32_t line, std::uint32_t) {
    definitions(data).regions[self] = {name, canonical, file, line, paradigm == OTF2_PARADIGM_MPI};
    return OTF2_CALLBACK_SUCCESS;
}

// Events into a trace: those of one location at a time.
class Otf2Events {
  public:
    Otf2Events(const Otf2Definitions& known, MemoryTrace& trace, bool ours)
        : known_(known), trace_(trace), ours_(ours) {
        for (std::uint32_t i = 0; i < known.ranks.size(); ++i) process_of_.emplace(known.ranks[i], i);
        for (const auto& [comm, group] : known.comms) add_communicator(comm, group);
        if (!ours_) return;
        for (const auto& [number, region] : known.regions) {
            const Place place{.file = known.string(region.file),
                              .line = region.line,
                              .function = known.string(region.canonical),
                              .call = known.string(region.name)};
            places_[number] = place == Place{.file = "", .line = 0, .function = "", .call = "unknown"}
                                  ? 0
                                  : trace_.place(unnamed(place));
        }
    }
    [[nodiscard]] const std::string& problem() const { return problem_; }
    void register_at(OTF2_EvtReaderCallbacks* callbacks);
    void register_messages(OTF2_EvtReaderCallbacks* callbacks);
    void register_others(OTF2_EvtReaderCallbacks* callbacks);
    void end_process() {
        // Operations that don't end: of which communicator they are is said nowhere.
        for (const auto& [request, post] : operations_) *post_of(post) = {.time = post_of(post)->time};
        operations_.clear();
        stack_.clear();
        requests_.clear();
        next_request_ = 0;
    }

  private:
    struct Comm {
        std::uint32_t id = none;  // none: of one process alone
        std::vector<Process> ranks;
    };
    // A region must have a name, a place needn't have a call.
    static Place unnamed(Place place) {
        if (place.call == "unknown" || place.call == place.function) place.call.clear();
        return place;
    }
    void add_communicator(OTF2_CommRef comm, OTF2_GroupRef group) {
        Comm& made = comms_[comm];
        const auto found = known_.groups.find(group);
        if (found == known_.groups.end() || found->second.type == OTF2_GROUP_TYPE_COMM_SELF) return;
        for (const std::uint64_t member : found->second.members) {
            std::uint32_t process = static_cast<std::uint32_t>(member);
            if (found->second.locations) {
                const auto known = process_of_.find(member);
                process = known == process_of_.end() ? none : known->second;
            }
            if (process < trace_.processes()) made.ranks.push_back(process);
        }
        std::vector<Process> members = made.ranks;
        std::sort(members.begin(), members.end());
        members.erase(std::unique(members.begin(), members.end()), members.end());
        made.id = 0;
        if (members.size() == trace_.processes() && !world_taken_) {
            world_taken_ = true;
            return;
        }
        made.id = comm + 1;
        if (!ours_) trace_.communicator({.id = made.id, .members = std::move(members)});
    }
    void complain(std::string text) {
        if (problem_.empty()) problem_ = std::move(text);
    }
    [[nodiscard]] std::int64_t time_of(OTF2_TimeStamp stamp) const {
        if (ours_) return static_cast<std::int64_t>(stamp);
        const auto ticks = static_cast<double>(stamp - known_.offset);
        return known_.resolution == 1'000'000'000
                   ? static_cast<std::int64_t>(stamp - known_.offset)
                   : static_cast<std::int64_t>(ticks * 1e9 / static_cast<double>(known_.resolution));
    }
    // From a time to a later one, whatever times a file says.
    static std::int64_t span(std::int64_t from, std::int64_t to) {
        const std::uint64_t difference = static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
        return from > to || difference > static_cast<std::uint64_t>(most_took)
                   ? 0
                   : static_cast<std::int64_t>(difference);
    }
    // A region that the location is in, and how many events of its process came before.
    struct Entered {
        OTF2_RegionRef region = 0;
        OTF2_TimeStamp at = 0;
        std::size_t events = 0;
    };
    [[nodiscard]] bool is_mpi(OTF2_RegionRef region) const {
        const auto known = known_.regions.find(region);
        return known != known_.regions.end() && known->second.mpi;
    }
    std::size_t events_of(OTF2_LocationRef location) {
        const auto process = process_of_.find(location);
        return process == process_of_.end() ? 0 : trace_.events(process->second).size();
    }
    void enter(OTF2_LocationRef location, OTF2_TimeStamp stamp, OTF2_RegionRef region) {
        stack_.push_back({region, stamp, events_of(location)});
    }
    // How long a call took to return is known to those of its events that say when it was made.
    void leave(OTF2_LocationRef location, OTF2_TimeStamp stamp) {
        if (stack_.empty()) return;
        const Entered left = stack_.back();
        stack_.pop_back();
        const auto process = process_of_.find(location);
        if (ours_ || process == process_of_.end() || !is_mpi(left.region)) return;
        auto& events = trace_.events(process->second);
        for (std::size_t i = left.events; i < events.size(); ++i)
            if (events[i].timed_at_call()) events[i].took = span(events[i].time, time_of(stamp));
    }
    // Since when it is in a call of the MPI.
    [[nodiscard]] std::int64_t took_so_far(std::int64_t time) const {
        if (stack_.empty() || !is_mpi(stack_.back().region)) return 0;
        return span(time_of(stack_.back().at), time);
    }
    // The call is the innermost region of the MPI; its place is around it.
    std::uint32_t place_now() {
        Place place;
        for (const Entered& each : std::ranges::reverse_view(stack_)) {
            const auto region = known_.regions.find(each.region);
            if (region == known_.regions.end()) continue;
            if (region->second.mpi && place.call.empty()) place.call = known_.string(region->second.name);
            if (region->second.mpi) continue;
            place.function = known_.string(region->second.name);
            place.file = known_.string(region->second.file);
            place.line = region->second.line;
            break;
        }
        return place == Place() ? 0 : trace_.place(place);
    }
    std::uint32_t request_of(std::uint64_t id, bool opens) {
        if (opens) return requests_[id] = ++next_request_;
        const auto found = requests_.find(id);
        if (found == requests_.end()) return 0;
        const std::uint32_t number = found->second;
        requests_.erase(found);
        return number;
    }
    using PostAt = std::pair<Process, std::size_t>;
    Event* post_of(const PostAt& at) { return &trace_.events(at.first)[at.second]; }
    // The post of the operation that ends with this request gets its communicator; `none`: it is none that
    // anybody else is in.
    void name_post(std::uint32_t request, std::uint32_t communicator) {
        const auto found = operations_.find(request);
        if (found == operations_.end()) return;
        Event& post = *post_of(found->second);
        if (communicator == none)
            post = {.time = post.time};
        else
            post.communicator = communicator;
        operations_.erase(found);
    }
    // The rest of the event by what the library says.
    void add(OTF2_LocationRef location, OTF2_TimeStamp stamp, OTF2_AttributeList* list, Event event,
             OTF2_CommRef comm, std::uint32_t peer, bool has_peer);
    bool add_ours(Process process, OTF2_TimeStamp stamp, OTF2_AttributeList* list);

    const Otf2Definitions& known_;
    MemoryTrace& trace_;
    bool ours_, world_taken_ = false;
    std::unordered_map<std::uint64_t, Process> process_of_;
    std::map<OTF2_CommRef, Comm> comms_;
    std::map<OTF2_RegionRef, std::uint32_t> places_;
    std::vector<Entered> stack_;
    std::unordered_map<std::uint64_t, std::uint32_t> requests_;
    std::map<std::uint32_t, PostAt> operations_;  // collective ones that are open, by request
    std::uint32_t next_request_ = 0;
    std::string problem_;
};

std::uint32_t attribute(const OTF2_AttributeList* list, Otf2Attribute which, std::uint32_t usual) {
    const auto id = static_cast<std::uint32_t>(which);
    std::uint32_t value = usual;
    if (OTF2_AttributeList_TestAttributeByID(list, id)) OTF2_AttributeList_GetUint32(list, id, &value);
    return value;
}

bool Otf2Events::add_ours(Process process, OTF2_TimeStamp stamp, OTF2_AttributeList* list) {
    if (!OTF2_AttributeList_TestAttributeByID(list, static_cast<std::uint32_t>(Otf2Attribute::kind)))
        return false;
    Event event;
    event.kind = static_cast<Kind>(attribute(list, Otf2Attribute::kind, 0));
    event.shape = static_cast<Shape>(attribute(list, Otf2Attribute::shape, 0));
    event.flags = static_cast<std::uint8_t>(attribute(list, Otf2Attribute::flags, 0));
    event.peer = attribute(list, Otf2Attribute::peer, none);
    event.communicator = attribute(list, Otf2Attribute::communicator, 0);
    event.tag = static_cast<std::int32_t>(attribute(list, Otf2Attribute::tag, 0));
    event.request = attribute(list, Otf2Attribute::request, 0);
    event.bytes = attribute(list, Otf2Attribute::bytes, unknown_bytes);
    const auto place = places_.find(attribute(list, Otf2Attribute::place, 0));
    if (place != places_.end()) event.place = place->second;
    event.time = time_of(stamp);
    constexpr auto message = static_cast<std::uint32_t>(Otf2Attribute::message);
    if (OTF2_AttributeList_TestAttributeByID(list, message))
        OTF2_AttributeList_GetUint64(list, message, &event.message);
    constexpr auto time = static_cast<std::uint32_t>(Otf2Attribute::time);
    if (OTF2_AttributeList_TestAttributeByID(list, time))
        OTF2_AttributeList_GetInt64(list, time, &event.time);
    constexpr auto took = static_cast<std::uint32_t>(Otf2Attribute::took);
    if (OTF2_AttributeList_TestAttributeByID(list, took))
        OTF2_AttributeList_GetInt64(list, took, &event.took);
    event.took = std::max<std::int64_t>(event.took, 0);
    constexpr auto type = static_cast<std::uint32_t>(Otf2Attribute::type);
    OTF2_StringRef name = 0;
    if (OTF2_AttributeList_TestAttributeByID(list, type) &&
        OTF2_AttributeList_GetStringRef(list, type, &name) == OTF2_SUCCESS)
        event.type = trace_.type(known_.string(name));
    trace_.append(process, event);
    return true;
}

void Otf2Events::add(OTF2_LocationRef location, OTF2_TimeStamp stamp, OTF2_AttributeList* list, Event event,
                     OTF2_CommRef comm, std::uint32_t peer, bool has_peer) {
    const auto process = process_of_.find(location);
    if (process == process_of_.end()) return;
    if (ours_) {
        static_cast<void>(add_ours(process->second, stamp, list));
        return;
    }
    event.time = time_of(stamp);
    if (!event.timed_at_call()) event.took = took_so_far(event.time);
    event.place = place_now();
    if (has_peer) {
        const auto known = comms_.find(comm);
        if (known == comms_.end()) return complain(fmt::format("communicator {} isn't defined", comm));
        if (event.kind == Kind::collective) name_post(event.request, known->second.id);
        if (known->second.id == none) return;  // of this process alone
        event.communicator = known->second.id;
        if (peer != OTF2_UNDEFINED_UINT32 && event.shape != Shape::all) {
            if (peer >= known->second.ranks.size())
                return complain(fmt::format("communicator {} has no rank {}", comm, peer));
            event.peer = known->second.ranks[peer];
        }
        // Roots that aren't said: everybody waits for everybody.
        if (event.kind == Kind::collective && event.peer == none) event.shape = Shape::all;
    }
    if ((event.kind == Kind::post || event.kind == Kind::complete) && event.request == 0)
        event = {.time = event.time};
    if (event.kind == Kind::post && event.has(Flag::for_collective))
        operations_[event.request] = {process->second, trace_.events(process->second).size()};
    trace_.append(process->second, event);
}

Shape shape_of(OTF2_CollectiveOp operation) {
    switch (operation) {
        case OTF2_COLLECTIVE_OP_BCAST:
        case OTF2_COLLECTIVE_OP_SCATTER:
        case OTF2_COLLECTIVE_OP_SCATTERV:
            return Shape::from_root;
        case OTF2_COLLECTIVE_OP_GATHER:
        case OTF2_COLLECTIVE_OP_GATHERV:
        case OTF2_COLLECTIVE_OP_REDUCE:
            return Shape::to_root;
        default:
            return Shape::all;
    }
}

void Otf2Events::register_at(OTF2_EvtReaderCallbacks* to) {
    register_messages(to);
    register_others(to);
}

void Otf2Events::register_messages(OTF2_EvtReaderCallbacks* to) {
    using Loc = OTF2_LocationRef;
    using Stamp = OTF2_TimeStamp;
    using List = OTF2_AttributeList*;
    using U32 = std::uint32_t;
    using U64 = std::uint64_t;
    static const auto me = [](void* data) -> Otf2Events& { return *static_cast<Otf2Events*>(data); };
    OTF2_EvtReaderCallbacks_SetEnterCallback(
        to, [](Loc at, Stamp time, U64, void* data, List, OTF2_RegionRef region) {
            me(data).enter(at, time, region);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetLeaveCallback(to,
                                             [](Loc at, Stamp time, U64, void* data, List, OTF2_RegionRef) {
                                                 me(data).leave(at, time);
                                                 return OTF2_CALLBACK_SUCCESS;
                                             });
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(to, [](Loc at, Stamp time, U64, void* data, List list,
                                                      U32 peer, OTF2_CommRef comm, U32 tag, U64 bytes) {
        Event event{.kind = Kind::send, .tag = static_cast<std::int32_t>(tag)};
        event.bytes = static_cast<U32>(std::min<U64>(bytes, most_bytes));
        me(data).add(at, time, list, event, comm, peer, true);
        return OTF2_CALLBACK_SUCCESS;
    });
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U32 peer, OTF2_CommRef comm, U32 tag,
               U64 bytes, U64 id) {
            Event event{.kind = Kind::send,
                        .tag = static_cast<std::int32_t>(tag),
                        .request = me(data).request_of(id, true)};
            event.bytes = static_cast<U32>(std::min<U64>(bytes, most_bytes));
            me(data).add(at, time, list, event, comm, peer, true);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiIsendCompleteCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U64 id) {
            me(data).add(at, time, list, {.kind = Kind::complete, .request = me(data).request_of(id, false)},
                         0, 0, false);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiIrecvRequestCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U64 id) {
            me(data).add(at, time, list, {.kind = Kind::post, .request = me(data).request_of(id, true)}, 0, 0,
                         false);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiRecvCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U32 peer, OTF2_CommRef comm, U32 tag, U64) {
            me(data).add(at, time, list, {.kind = Kind::receive, .tag = static_cast<std::int32_t>(tag)}, comm,
                         peer, true);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiIrecvCallback(to, [](Loc at, Stamp time, U64, void* data, List list,
                                                       U32 peer, OTF2_CommRef comm, U32 tag, U64, U64 id) {
        me(data).add(at, time, list,
                     {.kind = Kind::receive,
                      .tag = static_cast<std::int32_t>(tag),
                      .request = me(data).request_of(id, false)},
                     comm, peer, true);
        return OTF2_CALLBACK_SUCCESS;
    });
}

void Otf2Events::register_others(OTF2_EvtReaderCallbacks* to) {
    using Loc = OTF2_LocationRef;
    using Stamp = OTF2_TimeStamp;
    using List = OTF2_AttributeList*;
    using U32 = std::uint32_t;
    using U64 = std::uint64_t;
    static const auto me = [](void* data) -> Otf2Events& { return *static_cast<Otf2Events*>(data); };
    OTF2_EvtReaderCallbacks_SetMpiRequestTestCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U64) {
            me(data).add(at, time, list, {.flags = Flag::nondeterministic}, 0, 0, false);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiRequestCancelledCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U64 id) {
            me(data).add(
                at, time, list,
                {.kind = Kind::complete, .flags = Flag::cancelled, .request = me(data).request_of(id, false)},
                0, 0, false);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(to, [](Loc at, Stamp time, U64, void* data, List list,
                                                               OTF2_CollectiveOp what, OTF2_CommRef comm,
                                                               U32 root, U64, U64) {
        me(data).add(at, time, list, {.kind = Kind::collective, .shape = shape_of(what)}, comm, root, true);
        return OTF2_CALLBACK_SUCCESS;
    });
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveRequestCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, U64 id) {
            // Its communicator is said by its completion only.
            me(data).add(
                at, time, list,
                {.kind = Kind::post, .flags = Flag::for_collective, .request = me(data).request_of(id, true)},
                0, 0, false);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, OTF2_CollectiveOp what, OTF2_CommRef comm,
               U32 root, U64, U64, U64 id) {
            me(data).add(at, time, list,
                         {.kind = Kind::collective,
                          .shape = shape_of(what),
                          .request = me(data).request_of(id, false)},
                         comm, root, true);
            return OTF2_CALLBACK_SUCCESS;
        });
    OTF2_EvtReaderCallbacks_SetParameterUnsignedIntCallback(
        to, [](Loc at, Stamp time, U64, void* data, List list, OTF2_ParameterRef, U64) {
            if (me(data).ours_) me(data).add(at, time, list, {}, 0, 0, false);
            return OTF2_CALLBACK_SUCCESS;
        });
}

// Behind the beginning of a chunk and the order of bytes an anchor file says what it is.
bool begins_as_otf2(const std::string& path) {
    constexpr std::string_view name = "OTF2";
    constexpr std::size_t name_at = 2;
    std::ifstream file(path, std::ios::binary);
    std::array<char, name_at + name.size()> begin{};
    return file.read(begin.data(), begin.size()) &&
           std::string_view(begin.data() + name_at, name.size()) == name;
}

class Otf2Reader {
  public:
    explicit Otf2Reader(std::string path) : path_(std::move(path)) {}
    Result<std::unique_ptr<MemoryTrace>> read() {
        // The library keeps what it has taken for a file that is none.
        if (!begins_as_otf2(path_))
            return fail_code(ExitCode::damaged, "{}: no OTF2 trace can be read: it doesn't begin as one",
                             path_);
        reader_.reset(OTF2_Reader_Open(path_.c_str()));
        if (!reader_) return failed();
        took(OTF2_Reader_SetSerialCollectiveCallbacks(reader_.get()));
        read_definitions();
        if (!good_) return failed();
        if (known_.ranks.empty()) known_.ranks.assign(known_.locations.begin(), known_.locations.end());
        if (known_.ranks.empty() || known_.ranks.size() > most_processes)
            return fail_code(ExitCode::damaged, "{}: an OTF2 trace of {} MPI processes", path_,
                             known_.ranks.size());
        char* lines = nullptr;
        const bool ours = OTF2_Reader_GetProperty(reader_.get(), otf2_lines_property, &lines) == OTF2_SUCCESS;
        std::string text = ours ? lines : "";
        std::free(lines);
        std::replace(text.begin(), text.end(), '\t', '\n');
        auto trace = ours ? TRY(parse_trace_lines(text, path_))
                          : std::make_unique<MemoryTrace>(static_cast<Process>(known_.ranks.size()));
        if (trace->processes() != known_.ranks.size())
            return fail_code(ExitCode::damaged, "{}: {} processes, and {} locations", path_,
                             trace->processes(), known_.ranks.size());
        if (!ours) {
            trace->set_says_all(false);
            if (known_.locations.size() > known_.ranks.size())
                trace->add_note(
                    fmt::format("{}: {} locations are no MPI processes; their events are left out", path_,
                                known_.locations.size() - known_.ranks.size()));
        }
        Otf2Events events(known_, *trace, ours);
        read_events(events);
        if (!good_) return failed();
        if (!events.problem().empty()) return fail_code(ExitCode::damaged, "{}: {}", path_, events.problem());
        return trace;
    }

  private:
    void took(OTF2_ErrorCode code) { good_ = good_ && code == OTF2_SUCCESS; }
    std::unexpected<Error> failed() const {
        return fail_code(ExitCode::damaged, "{}: no OTF2 trace can be read: {}", path_, otf2_complaint());
    }
    void read_definitions() {
        OTF2_GlobalDefReader* global = OTF2_Reader_GetGlobalDefReader(reader_.get());
        if (global == nullptr) return took(OTF2_ERROR_INVALID_DATA);
        OTF2_GlobalDefReaderCallbacks* to = OTF2_GlobalDefReaderCallbacks_New();
        OTF2_GlobalDefReaderCallbacks_SetStringCallback(to, on_string);
        OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(to, on_clock);
        OTF2_GlobalDefReaderCallbacks_SetLocationCallback(to, on_location);
        OTF2_GlobalDefReaderCallbacks_SetGroupCallback(to, on_group);
        OTF2_GlobalDefReaderCallbacks_SetCommCallback(to, on_comm);
        OTF2_GlobalDefReaderCallbacks_SetRegionCallback(to, on_region);
        took(OTF2_Reader_RegisterGlobalDefCallbacks(reader_.get(), global, to, &known_));
        OTF2_GlobalDefReaderCallbacks_Delete(to);
        std::uint64_t read = 0;
        took(OTF2_Reader_ReadAllGlobalDefinitions(reader_.get(), global, &read));
        took(OTF2_Reader_CloseGlobalDefReader(reader_.get(), global));
    }
    void read_events(Otf2Events& events) {
        for (const std::uint64_t location : known_.ranks)
            took(OTF2_Reader_SelectLocation(reader_.get(), location));
        // Local definitions translate the numbers of a location to global ones; a trace may go without.
        if (OTF2_Reader_OpenDefFiles(reader_.get()) == OTF2_SUCCESS) {
            for (const std::uint64_t location : known_.ranks) {
                OTF2_DefReader* local = OTF2_Reader_GetDefReader(reader_.get(), location);
                if (local == nullptr) continue;
                std::uint64_t read = 0;
                took(OTF2_Reader_ReadAllLocalDefinitions(reader_.get(), local, &read));
                took(OTF2_Reader_CloseDefReader(reader_.get(), local));
            }
            took(OTF2_Reader_CloseDefFiles(reader_.get()));
        }
        took(OTF2_Reader_OpenEvtFiles(reader_.get()));
        OTF2_EvtReaderCallbacks* to = OTF2_EvtReaderCallbacks_New();
        events.register_at(to);
        for (const std::uint64_t location : known_.ranks) {
            if (!good_) break;
            OTF2_EvtReader* local = OTF2_Reader_GetEvtReader(reader_.get(), location);
            if (local == nullptr) {
                took(OTF2_ERROR_INVALID_DATA);
                break;
            }
            took(OTF2_Reader_RegisterEvtCallbacks(reader_.get(), local, to, &events));
            std::uint64_t read = 0;
            took(OTF2_Reader_ReadAllLocalEvents(reader_.get(), local, &read));
            events.end_process();
            took(OTF2_Reader_CloseEvtReader(reader_.get(), local));
        }
        OTF2_EvtReaderCallbacks_Delete(to);
        took(OTF2_Reader_CloseEvtFiles(reader_.get()));
    }

    std::string path_;
    std::unique_ptr<OTF2_Reader, ReaderCloser> reader_;
    Otf2Definitions known_;
    bool good_ = true;
};

}  // namespace

Result<std::unique_ptr<MemoryTrace>> read_otf2(const std::string& path) {
    hear_otf2_complaints();
    return Otf2Reader(path.ends_with(".otf2") ? path : path + "/traces.otf2").read();
}

}  // namespace cairn::causality
#endif
