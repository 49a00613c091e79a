// Writes an OTF2 trace: the events first, then the definitions, which are known by then.
#ifdef CAIRN_OTF2
#include <otf2/otf2.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <map>

#include "causality/otf2/attributes.h"
#include "causality/otf2/otf2.h"
#include "causality/trace_json.h"

namespace cairn::causality {
namespace {

std::string last_complaint;

OTF2_ErrorCode note_complaint(void*, const char*, std::uint64_t, const char*, OTF2_ErrorCode code,
                              const char* format, va_list values) {
    char text[512] = {};
    static_cast<void>(std::vsnprintf(text, sizeof text, format != nullptr ? format : "", values));
    last_complaint = fmt::format("{}: {}", OTF2_Error_GetDescription(code), text);
    return code;
}

OTF2_FlushType flush_always(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

struct ArchiveCloser {
    void operator()(OTF2_Archive* archive) const { static_cast<void>(OTF2_Archive_Close(archive)); }
};
struct AttributesDeleter {
    void operator()(OTF2_AttributeList* list) const { OTF2_AttributeList_Delete(list); }
};

std::uint32_t id(Otf2Attribute which) {
    return static_cast<std::uint32_t>(which);
}

OTF2_CollectiveOp operation_of(const Event& event, const std::string& call) {
    static const std::map<std::string, OTF2_CollectiveOp> known = {
        {"MPI_Barrier", OTF2_COLLECTIVE_OP_BARRIER},
        {"MPI_Ibarrier", OTF2_COLLECTIVE_OP_BARRIER},
        {"MPI_Bcast", OTF2_COLLECTIVE_OP_BCAST},
        {"MPI_Gather", OTF2_COLLECTIVE_OP_GATHER},
        {"MPI_Gatherv", OTF2_COLLECTIVE_OP_GATHERV},
        {"MPI_Scatter", OTF2_COLLECTIVE_OP_SCATTER},
        {"MPI_Scatterv", OTF2_COLLECTIVE_OP_SCATTERV},
        {"MPI_Allgather", OTF2_COLLECTIVE_OP_ALLGATHER},
        {"MPI_Allgatherv", OTF2_COLLECTIVE_OP_ALLGATHERV},
        {"MPI_Alltoall", OTF2_COLLECTIVE_OP_ALLTOALL},
        {"MPI_Alltoallv", OTF2_COLLECTIVE_OP_ALLTOALLV},
        {"MPI_Alltoallw", OTF2_COLLECTIVE_OP_ALLTOALLW},
        {"MPI_Allreduce", OTF2_COLLECTIVE_OP_ALLREDUCE},
        {"MPI_Reduce", OTF2_COLLECTIVE_OP_REDUCE},
        {"MPI_Reduce_scatter", OTF2_COLLECTIVE_OP_REDUCE_SCATTER},
        {"MPI_Reduce_scatter_block", OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK},
        {"MPI_Scan", OTF2_COLLECTIVE_OP_SCAN},
        {"MPI_Exscan", OTF2_COLLECTIVE_OP_EXSCAN},
    };
    if (const auto found = known.find(call); found != known.end()) return found->second;
    if (event.shape == Shape::from_root) return OTF2_COLLECTIVE_OP_BCAST;
    return event.shape == Shape::to_root ? OTF2_COLLECTIVE_OP_REDUCE : OTF2_COLLECTIVE_OP_BARRIER;
}

class Otf2Writer {
  public:
    Otf2Writer(TraceSource& source, std::string folder) : source_(source), folder_(std::move(folder)) {
        for (Process p = 0; p < source.processes(); ++p) everybody_.push_back(p);
        for (const Communicator& each : source.communicators())
            communicators_.emplace(each.id,
                                   std::pair(static_cast<std::uint32_t>(communicators_.size() + 1), &each));
    }
    Result<> write() {
        archive_.reset(OTF2_Archive_Open(folder_.c_str(), "traces", OTF2_FILEMODE_WRITE, 1U << 20, 4U << 20,
                                         OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE));
        if (!archive_) return failed("creating");
        static const OTF2_FlushCallbacks flush = {flush_always, nullptr};
        took(OTF2_Archive_SetFlushCallbacks(archive_.get(), &flush, nullptr));
        took(OTF2_Archive_SetSerialCollectiveCallbacks(archive_.get()));
        took(OTF2_Archive_OpenEvtFiles(archive_.get()));
        list_.reset(OTF2_AttributeList_New());
        for (Process p = 0; p < source_.processes() && good_; ++p) CHECK_OK(write_process(p));
        took(OTF2_Archive_CloseEvtFiles(archive_.get()));
        took(OTF2_Archive_OpenDefFiles(archive_.get()));
        for (Process p = 0; p < source_.processes() && good_; ++p) {
            OTF2_DefWriter* definitions = OTF2_Archive_GetDefWriter(archive_.get(), p);
            took(definitions != nullptr ? OTF2_Archive_CloseDefWriter(archive_.get(), definitions)
                                        : OTF2_ERROR_INVALID_DATA);
        }
        took(OTF2_Archive_CloseDefFiles(archive_.get()));
        if (good_) write_definitions();
        took(OTF2_Archive_SetProperty(archive_.get(), otf2_lines_property, lines().c_str(), true));
        took(OTF2_Archive_Close(archive_.release()));
        return good_ ? Result<>() : failed("writing");
    }

  private:
    void took(OTF2_ErrorCode code) { good_ = good_ && code == OTF2_SUCCESS; }
    std::unexpected<Error> failed(const char* what) const {
        return fail("{} the OTF2 trace {}: {}", what, folder_, otf2_complaint());
    }
    const std::vector<Process>& members(std::uint32_t communicator) const {
        const auto found = communicators_.find(communicator);
        return found == communicators_.end() ? everybody_ : found->second.second->members;
    }
    OTF2_CommRef comm(std::uint32_t communicator) const {
        const auto found = communicators_.find(communicator);
        return found == communicators_.end() ? 0 : found->second.first;
    }
    // Of an intercommunicator's other group: by its place among all.
    std::uint32_t rank_in(std::uint32_t communicator, Process process) const {
        const auto& all = members(communicator);
        const auto found = std::lower_bound(all.begin(), all.end(), process);
        return found != all.end() && *found == process ? static_cast<std::uint32_t>(found - all.begin())
                                                       : OTF2_UNDEFINED_UINT32;
    }
    OTF2_StringRef string(const std::string& text) {
        const auto [found, is_new] = strings_.try_emplace(text, static_cast<std::uint32_t>(strings_.size()));
        if (is_new) texts_.push_back(text);
        return found->second;
    }
    void attributes(const Event& event, std::uint64_t stamp) {
        OTF2_AttributeList* list = list_.get();
        took(OTF2_AttributeList_RemoveAllAttributes(list));
        const auto put = [&](Otf2Attribute which, std::uint32_t value, std::uint32_t usual) {
            if (value != usual) took(OTF2_AttributeList_AddUint32(list, id(which), value));
        };
        took(OTF2_AttributeList_AddUint32(list, id(Otf2Attribute::kind),
                                          static_cast<std::uint32_t>(event.kind)));
        put(Otf2Attribute::shape, static_cast<std::uint32_t>(event.shape), 0);
        put(Otf2Attribute::flags, event.flags, 0);
        put(Otf2Attribute::peer, event.peer, none);
        put(Otf2Attribute::communicator, event.communicator, 0);
        put(Otf2Attribute::tag, static_cast<std::uint32_t>(event.tag), 0);
        put(Otf2Attribute::request, event.request, 0);
        put(Otf2Attribute::place, event.place, 0);
        put(Otf2Attribute::bytes, event.bytes, unknown_bytes);
        if (event.message != 0)
            took(OTF2_AttributeList_AddUint64(list, id(Otf2Attribute::message), event.message));
        if (event.type != 0)
            took(OTF2_AttributeList_AddStringRef(list, id(Otf2Attribute::type),
                                                 string(source_.types()[event.type])));
        if (event.time != static_cast<std::int64_t>(stamp))
            took(OTF2_AttributeList_AddInt64(list, id(Otf2Attribute::time), event.time));
        if (event.took != 0) took(OTF2_AttributeList_AddInt64(list, id(Otf2Attribute::took), event.took));
    }
    // The events of one call are within its region.
    Result<> write_process(Process process) {
        OTF2_EvtWriter* out = OTF2_Archive_GetEvtWriter(archive_.get(), process);
        if (out == nullptr) return failed("writing");
        Event event;
        std::uint64_t stamp = 0;
        std::int64_t left = INT64_MIN;  // when the call that it is in returns
        std::uint32_t inside = none;
        for (;;) {
            const auto more = TRY(source_.next(process, event));
            if (!more) break;
            if (event.place >= source_.places().size() || event.type >= source_.types().size())
                return fail_code(ExitCode::damaged, "process {}: an event's place or type is not defined",
                                 process);
            // Stamps don't decrease, as OTF2 wants them.
            const auto next_stamp = [&](std::int64_t time) {
                stamp = std::max(stamp, static_cast<std::uint64_t>(std::max<std::int64_t>(time, 0)));
                first_ = std::min(first_, stamp);
                last_ = std::max(last_, stamp);
                return stamp;
            };
            if (!event.has(Flag::joined) || inside != event.place) {
                if (inside != none) took(OTF2_EvtWriter_Leave(out, nullptr, next_stamp(left), inside));
                left = INT64_MIN;
                inside = event.place;
                used_.resize(std::max<std::size_t>(used_.size(), inside + std::size_t{1}));
                took(OTF2_EvtWriter_Enter(out, nullptr, next_stamp(event.call_begin()), inside));
            }
            left = std::max(left, event.call_end());
            attributes(event, next_stamp(event.time));
            put_event(out, stamp, event);
        }
        stamp = std::max(stamp, static_cast<std::uint64_t>(std::max<std::int64_t>(left, 0)));
        last_ = std::max(last_, stamp);
        if (inside != none) took(OTF2_EvtWriter_Leave(out, nullptr, stamp, inside));
        std::uint64_t count = 0;
        took(OTF2_EvtWriter_GetNumberOfEvents(out, &count));
        counts_.push_back(count);
        took(OTF2_Archive_CloseEvtWriter(archive_.get(), out));
        return good_ ? Result<>() : failed("writing");
    }
    void put_event(OTF2_EvtWriter* out, std::uint64_t stamp, const Event& event) {
        OTF2_AttributeList* list = list_.get();
        const auto tag = static_cast<std::uint32_t>(event.tag);
        const OTF2_CommRef in = comm(event.communicator);
        const std::uint32_t peer =
            event.peer == none ? OTF2_UNDEFINED_UINT32 : rank_in(event.communicator, event.peer);
        const std::uint64_t bytes = event.bytes == unknown_bytes ? 0 : event.bytes;
        switch (event.kind) {
            case Kind::send:
                return took(
                    event.request == 0
                        ? OTF2_EvtWriter_MpiSend(out, list, stamp, peer, in, tag, bytes)
                        : OTF2_EvtWriter_MpiIsend(out, list, stamp, peer, in, tag, bytes, event.request));
            case Kind::receive:
                return took(
                    event.request == 0
                        ? OTF2_EvtWriter_MpiRecv(out, list, stamp, peer, in, tag, bytes)
                        : OTF2_EvtWriter_MpiIrecv(out, list, stamp, peer, in, tag, bytes, event.request));
            case Kind::collective: {
                const auto what = operation_of(event, source_.places()[event.place].call);
                if (event.request != 0)
                    return took(OTF2_EvtWriter_NonBlockingCollectiveComplete(out, list, stamp, what, in, peer,
                                                                             0, 0, event.request));
                took(OTF2_EvtWriter_MpiCollectiveBegin(out, nullptr, stamp));
                return took(OTF2_EvtWriter_MpiCollectiveEnd(out, list, stamp, what, in, peer, 0, 0));
            }
            case Kind::post:
                return took(event.has(Flag::for_collective)
                                ? OTF2_EvtWriter_NonBlockingCollectiveRequest(out, list, stamp, event.request)
                                : OTF2_EvtWriter_MpiIrecvRequest(out, list, stamp, event.request));
            case Kind::complete:
                return took(event.has(Flag::cancelled)
                                ? OTF2_EvtWriter_MpiRequestCancelled(out, list, stamp, event.request)
                                : OTF2_EvtWriter_MpiIsendComplete(out, list, stamp, event.request));
            default:  // within its region nothing but what the attributes say
                took(OTF2_EvtWriter_ParameterUnsignedInt(out, list, stamp, 0,
                                                         static_cast<std::uint64_t>(event.kind)));
        }
    }
    void write_definitions() {
        OTF2_GlobalDefWriter* out = OTF2_Archive_GetGlobalDefWriter(archive_.get());
        if (out == nullptr) return took(OTF2_ERROR_INVALID_DATA);
        const OTF2_StringRef empty = string(""), machine = string("machine"), unknown = string("unknown"),
                             world = string("MPI_COMM_WORLD"), kind = string("cairn.kind");
        struct Named {
            OTF2_StringRef call, function, file;
        };
        std::vector<Named> regions;
        for (const Place& each : source_.places()) {
            const std::string& name = each.call.empty() ? each.function : each.call;
            regions.push_back(
                {name.empty() ? unknown : string(name), string(each.function), string(each.file)});
        }
        std::vector<OTF2_StringRef> attributes, ranks, names;
        for (const char* each : otf2_attribute_names) attributes.push_back(string(each));
        for (Process p = 0; p < source_.processes(); ++p) ranks.push_back(string(fmt::format("rank {}", p)));
        for (const auto& [number, each] : communicators_)
            names.push_back(string(fmt::format("communicator {}", number)));
        for (std::uint32_t i = 0; i < texts_.size(); ++i)
            took(OTF2_GlobalDefWriter_WriteString(out, i, texts_[i].c_str()));
        took(OTF2_GlobalDefWriter_WriteClockProperties(out, 1'000'000'000, std::min(first_, last_),
                                                       last_ - std::min(first_, last_) + 1,
                                                       OTF2_UNDEFINED_TIMESTAMP));
        for (std::uint32_t i = 0; i < attributes.size(); ++i) {
            const auto which = static_cast<Otf2Attribute>(i);
            const OTF2_Type type = which == Otf2Attribute::message ? OTF2_TYPE_UINT64
                                   : which == Otf2Attribute::type  ? OTF2_TYPE_STRING
                                   : which == Otf2Attribute::time || which == Otf2Attribute::took
                                       ? OTF2_TYPE_INT64
                                       : OTF2_TYPE_UINT32;
            took(OTF2_GlobalDefWriter_WriteAttribute(out, i, attributes[i], empty, type));
        }
        took(OTF2_GlobalDefWriter_WriteParameter(out, 0, kind, OTF2_PARAMETER_TYPE_UINT64));
        took(OTF2_GlobalDefWriter_WriteSystemTreeNode(out, 0, machine, machine,
                                                      OTF2_UNDEFINED_SYSTEM_TREE_NODE));
        for (Process p = 0; p < source_.processes(); ++p) {
            took(OTF2_GlobalDefWriter_WriteLocationGroup(out, p, ranks[p], OTF2_LOCATION_GROUP_TYPE_PROCESS,
                                                         0, OTF2_UNDEFINED_LOCATION_GROUP));
            took(OTF2_GlobalDefWriter_WriteLocation(out, p, ranks[p], OTF2_LOCATION_TYPE_CPU_THREAD,
                                                    counts_[p], p));
        }
        for (std::uint32_t i = 0; i < regions.size(); ++i) {
            const std::uint32_t line = source_.places()[i].line;
            took(OTF2_GlobalDefWriter_WriteRegion(out, i, regions[i].call, regions[i].function, empty,
                                                  OTF2_REGION_ROLE_UNKNOWN, OTF2_PARADIGM_MPI,
                                                  OTF2_REGION_FLAG_NONE, regions[i].file, line, line));
        }
        std::vector<std::uint64_t> all(everybody_.begin(), everybody_.end());
        took(OTF2_GlobalDefWriter_WriteGroup(out, 0, empty, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                             OTF2_GROUP_FLAG_NONE, static_cast<std::uint32_t>(all.size()),
                                             all.data()));
        took(OTF2_GlobalDefWriter_WriteGroup(out, 1, empty, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                             OTF2_GROUP_FLAG_NONE, static_cast<std::uint32_t>(all.size()),
                                             all.data()));
        took(OTF2_GlobalDefWriter_WriteComm(out, 0, world, 1, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
        std::size_t at = 0;
        for (const auto& [number, each] : communicators_) {
            const std::vector<std::uint64_t> group(each.second->members.begin(), each.second->members.end());
            took(OTF2_GlobalDefWriter_WriteGroup(out, each.first + 1, empty, OTF2_GROUP_TYPE_COMM_GROUP,
                                                 OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE,
                                                 static_cast<std::uint32_t>(group.size()), group.data()));
            took(OTF2_GlobalDefWriter_WriteComm(out, each.first, names[at++], each.first + 1,
                                                OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
        }
        took(OTF2_Archive_CloseGlobalDefWriter(archive_.get(), out));
    }
    // What OTF2 has no words for.
    std::string lines() const {
        TraceLine line;
        std::string text;
        const auto put = [&](TraceLine::What what) {
            line.what = what;
            text += trace_line(line) + "\t";  // a property is one line
        };
        line.processes = source_.processes();
        put(TraceLine::What::header);
        for (const Communicator& each : source_.communicators()) {
            line.communicator = each;
            put(TraceLine::What::communicator);
        }
        for (line.process = 0; line.process < source_.processes(); ++line.process) {
            if (!source_.ended(line.process)) put(TraceLine::What::killed);
            if (const auto& standing = source_.standing(line.process)) {
                line.standing = *standing;
                line.place = source_.places()[standing->event.place];
                put(TraceLine::What::standing);
            }
        }
        for (const Leak& each : source_.leaks()) {
            line.leak = each;
            line.process = each.process;
            line.place = source_.places()[each.place];
            put(TraceLine::What::leak);
        }
        return text;
    }

    TraceSource& source_;
    std::string folder_;
    std::unique_ptr<OTF2_Archive, ArchiveCloser> archive_;
    std::unique_ptr<OTF2_AttributeList, AttributesDeleter> list_;
    std::vector<Process> everybody_;
    std::map<std::uint32_t, std::pair<std::uint32_t, const Communicator*>> communicators_;  // id -> its Comm
    std::map<std::string, OTF2_StringRef> strings_;
    std::vector<std::string> texts_;
    std::vector<std::uint64_t> counts_;
    std::vector<bool> used_;
    std::uint64_t first_ = UINT64_MAX, last_ = 0;
    bool good_ = true;
};

}  // namespace

const std::string& otf2_complaint() {
    return last_complaint;
}

void hear_otf2_complaints() {
    last_complaint = "no reason is given";
    OTF2_Error_RegisterCallback(note_complaint, nullptr);
}

Result<> write_otf2(TraceSource& source, const std::string& folder) {
    std::error_code ignored;
    if (std::filesystem::exists(folder, ignored))
        return fail("{} is there already: an OTF2 trace is a folder of its own", folder);
    hear_otf2_complaints();
    return Otf2Writer(source, folder).write();
}

}  // namespace cairn::causality
#endif
