// The row of calls: foreseen, recorded where it can't be, held against the record in replay.
#include <dlfcn.h>

#include "mpi/interposer/contents.h"
#include "mpi/interposer/session.h"

namespace cairn::mpi {

const char* name(Fn fn) {
    static constexpr const char* names[] = {
#define FUNCTION(name) "MPI_" #name,
#include "functions.inc"
#undef FUNCTION
        "nothing"};
    return names[static_cast<std::size_t>(fn)];
}

std::uint32_t Calls::site(const Call& call, bool& is_new, bool& module_is_new) {
    const std::uint64_t key =
        mix(reinterpret_cast<std::uintptr_t>(call.at), static_cast<std::uint64_t>(call.fn));
    const auto [at, added] = site_numbers_.try_emplace(key, static_cast<std::uint32_t>(sites_.size()));
    is_new = added;
    module_is_new = false;
    if (!added) return at->second;
    Dl_info info{};
    std::string path = "?";
    std::uint64_t offset = reinterpret_cast<std::uintptr_t>(call.at);
    // The call is the instruction before the one it returns to.
    if (::dladdr(static_cast<char*>(call.at) - 1, &info) != 0 && info.dli_fname != nullptr) {
        path = info.dli_fname;
        offset -= reinterpret_cast<std::uintptr_t>(info.dli_fbase) + 1;
    }
    std::uint32_t module = 0;
    while (module < modules_.size() && modules_[module] != path) ++module;
    if (module == modules_.size()) {
        modules_.push_back(path);
        module_is_new = true;
    }
    sites_.push_back({call.fn, module, offset});
    return at->second;
}

namespace {

std::uint32_t added(const Call& call, int peer, std::uint32_t comm, bool& site_is_new, bool& module_is_new) {
    Calls& calls = session->calls;
    const std::uint32_t site = calls.site(call, site_is_new, module_is_new);
    calls.add({site, peer, comm});
    return site;
}

// How many of each are known: what comes above has its first use in this call.
struct KnownBefore {
    std::size_t calls, sites, modules;
};
KnownBefore known_now() {
    const Calls& calls = session->calls;
    return {calls.size(), calls.sites(), calls.modules()};
}

// `expected`: what was foreseen. `before`: what was known before this call.
void write_call(std::uint32_t number, std::uint32_t expected, const KnownBefore& before) {
    Session& s = *session;
    RecordWriter& out = *s.writer;
    out.begin();
    if (expected == number) return out.expected();
    if (number >= before.calls) {
        const KnownCall& call = s.calls.call(number);
        if (call.site >= before.sites) {
            const Site& where = s.calls.site(call.site);
            if (where.module >= before.modules) {
                const std::string& path = s.calls.module(where.module);
                out.put_bytes(Column::module, path.data(), path.size());
            }
            out.put(Column::new_site, static_cast<std::uint64_t>(where.fn));
            out.put(Column::new_site, where.module);
            out.put(Column::new_site, where.offset);
        }
        out.put(Column::new_call, call.site);
        out.put(Column::new_call, zigzag(call.peer));
        out.put(Column::new_call, call.comm);
    }
    out.put(Column::call, number);
    out.unexpected();
}

void record_call(const Call& call, int peer, std::uint32_t comm) {
    const KnownBefore before = known_now();
    bool is_new = false, site_is_new = false, module_is_new = false;
    const std::uint32_t number = session->calls.number(call, peer, comm, is_new);
    if (is_new) added(call, peer, comm, site_is_new, module_is_new);
    write_call(number, predictor().expected(), before);
    predictor().happened(number);
}

std::string base_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

std::string happened_text(const Call& call, int peer, std::uint32_t comm) {
    Calls calls;
    bool site_is_new = false, module_is_new = false;
    const std::uint32_t site = calls.site(call, site_is_new, module_is_new);
    return describe(calls.site(site), calls.module(0), peer, comm);
}

// What the record says comes now, which nothing here has foreseen.
void check_unforeseen(const Call& call, int peer, std::uint32_t comm) {
    Session& s = *session;
    RecordReader& in = *s.reader;
    const auto ended = [] { record_ends(); };
    const auto recorded = in.next(Column::call);
    if (!recorded) ended();
    bool is_new = false;
    if (*recorded < s.calls.size()) {
        const std::uint32_t number = s.calls.number(call, peer, comm, is_new);
        if (is_new || number != *recorded)
            depart(describe(s.calls.call(static_cast<std::uint32_t>(*recorded))),
                   happened_text(call, peer, comm));
        predictor().happened(number);
        return;
    }
    const auto site = in.next(Column::new_call);
    const auto recorded_peer = in.next(Column::new_call);
    const auto recorded_comm = in.next(Column::new_call);
    if (!site || !recorded_peer || !recorded_comm) ended();
    const KnownCall expected{static_cast<std::uint32_t>(*site),
                             static_cast<std::int32_t>(unzigzag(*recorded_peer)),
                             static_cast<std::uint32_t>(*recorded_comm)};
    // The same text if the place is known already.
    bool site_is_new = false, module_is_new = false;
    const std::uint32_t number = s.calls.number(call, peer, comm, is_new);
    const std::uint32_t happened =
        is_new ? added(call, peer, comm, site_is_new, module_is_new) : s.calls.call(number).site;
    Site recorded_site;
    std::string recorded_module;
    static std::vector<Site> recorded_sites;
    static std::vector<std::string> recorded_modules;
    while (recorded_sites.size() <= expected.site) {
        const auto fn = in.next(Column::new_site);
        const auto module = in.next(Column::new_site);
        const auto offset = in.next(Column::new_site);
        if (!fn || !module || !offset || *fn >= static_cast<std::uint64_t>(Fn::count_)) ended();
        while (recorded_modules.size() <= *module) {
            auto path = in.next_bytes(Column::module);
            if (!path) ended();
            recorded_modules.push_back(std::move(*path));
        }
        recorded_sites.push_back({static_cast<Fn>(*fn), static_cast<std::uint32_t>(*module), *offset});
    }
    recorded_site = recorded_sites[expected.site];
    recorded_module = recorded_modules[recorded_site.module];
    const Site& here = s.calls.site(happened);
    const bool same_site = here.fn == recorded_site.fn && here.offset == recorded_site.offset &&
                           base_name(s.calls.module(here.module)) == base_name(recorded_module);
    if (!is_new || !same_site || expected.peer != peer || expected.comm != comm)
        depart(describe(recorded_site, recorded_module, expected.peer, expected.comm),
               happened_text(call, peer, comm));
    predictor().happened(number);
}

void check_call(const Call& call, int peer, std::uint32_t comm) {
    Session& s = *session;
    check_end();
    if (!s.hits_known) {
        const auto hits = s.reader->next(Column::hits);
        // Behind the last entry all calls up to the record's end were foreseen.
        s.hits = hits.value_or(~std::uint64_t{0});
        s.hits_known = true;
    }
    if (s.hits == 0) {
        s.hits_known = false;
        check_unforeseen(call, peer, comm);
        return;
    }
    --s.hits;
    bool is_new = false;
    const std::uint32_t number = s.calls.number(call, peer, comm, is_new);
    const std::uint32_t expected = predictor().expected();
    if (is_new || number != expected) {
        if (expected == Predictor::unknown) record_ends();
        depart(describe(s.calls.call(expected)), happened_text(call, peer, comm));
    }
    predictor().happened(number);
}

// Of a replay that may be left: its record is that of a run that comes here.
void check_and_write_call(const Call& call, int peer, std::uint32_t comm) {
    const KnownBefore before = known_now();
    const std::uint32_t expected = predictor().expected();
    check_call(call, peer, comm);
    bool is_new = false;
    write_call(session->calls.number(call, peer, comm, is_new), expected, before);
}

}  // namespace

void begin(const Call& made, int peer, MPI_Comm comm, int tag) {
    Session& s = *session;
    const Call call{made.fn, caller(made), made.frame};
    if (s.late) stop_if_late();
    ++s.events;
    if (s.alone) s.last = {call.fn, call.at, made.frame, peer, comm, false};
    if (s.checking) check_before(call);
    if (s.tracer) s.tracer->begin(call, call.at, peer, comm, tag);
    const std::uint32_t number = comm_number(comm);
    s.order = mix(s.order, static_cast<std::uint64_t>(call.fn) << 48 ^
                               static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 16 ^ number);
    s.order = mix(s.order, static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)));
    if (s.job == Job::record) record_call(call, peer, number);
    if (s.job == Job::replay && !s.writer) check_call(call, peer, number);
    if (s.job == Job::replay && s.writer) check_and_write_call(call, peer, number);
    if (s.shadows.empty()) return;
    if (s.storing) store_shadows();
    if (s.alone) fed_shadows();
}

std::string describe(const Site& site, const std::string& module, int peer, std::uint32_t comm) {
    std::string text = name(site.fn);
    if (peer == MPI_ANY_SOURCE)
        text += ", any source";
    else if (peer != MPI_PROC_NULL)
        text += fmt::format(", rank {}", peer);
    if (comm != 0) text += fmt::format(", communicator {}", comm);
    return text + " at " + place_of(module, site.offset);
}

std::string describe(const KnownCall& call) {
    const Site& site = session->calls.site(call.site);
    return describe(site, session->calls.module(site.module), call.peer, call.comm);
}

}  // namespace cairn::mpi
