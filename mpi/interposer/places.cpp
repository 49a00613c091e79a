// Where in the program a call comes from. A call in Fortran comes by the MPI's Fortran library: its caller is
// looked for on the stack once, and the place on the stack where it was found is looked at from then on.
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <unordered_map>

#include "mpi/interposer/session.h"

namespace cairn::mpi {
namespace {

struct Range {
    std::uintptr_t begin, end;
};

std::vector<Range>& fortran() {
    static std::vector<Range> ranges = [] {
        std::vector<Range> found;
        ::dl_iterate_phdr(
            [](dl_phdr_info* info, std::size_t, void* into) {
                const std::string_view path = info->dlpi_name;
                const std::string_view base = path.substr(path.rfind('/') + 1);
                if (!base.starts_with("libmpichfort.") && !base.starts_with("libmpi_mpifh") &&
                    !base.starts_with("libmpi_usempi"))
                    return 0;
                for (int i = 0; i < info->dlpi_phnum; ++i)
                    if (const auto& part = info->dlpi_phdr[i];
                        part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0)
                        static_cast<std::vector<Range>*>(into)->push_back(
                            {info->dlpi_addr + part.p_vaddr, info->dlpi_addr + part.p_vaddr + part.p_memsz});
                return 0;
            },
            &found);
        return found;
    }();
    return ranges;
}

bool is_fortran(std::uintptr_t address) {
    return std::any_of(fortran().begin(), fortran().end(),
                       [&](const Range& range) { return address >= range.begin && address < range.end; });
}

struct Search {
    std::uintptr_t inner;
    bool inside = false;
    std::uintptr_t found = 0;
};

// The first frame outside of the MPI's libraries behind the one that `inner` is in.
std::uintptr_t unwind(std::uintptr_t inner) {
    Search search{inner};
    ::_Unwind_Backtrace(
        [](_Unwind_Context* context, void* data) {
            auto& s = *static_cast<Search*>(data);
            const auto at = static_cast<std::uintptr_t>(::_Unwind_GetIP(context));
            if (at == s.inner) s.inside = true;
            if (!s.inside || is_fortran(at - 1)) return _URC_NO_REASON;
            s.found = at;
            return _URC_END_OF_STACK;
        },
        &search);
    return search.found;
}

struct Slot {
    std::ptrdiff_t offset = 0;  // from the wrapper's frame; 0: not found
};

}  // namespace

void* caller(const Call& call) {
    const auto at = reinterpret_cast<std::uintptr_t>(call.at);
    if (fortran().empty() || !is_fortran(at - 1)) return call.at;
    static std::unordered_map<std::uintptr_t, Slot> slots;    // by where the library calls us
    static std::unordered_map<std::uintptr_t, bool> callers;  // that were found by unwinding
    const auto frame = reinterpret_cast<std::uintptr_t*>(call.frame);
    Slot& slot = slots[at];
    if (slot.offset != 0)
        if (const std::uintptr_t seen = frame[slot.offset]; callers.contains(seen))
            return reinterpret_cast<void*>(seen);
    const std::uintptr_t found = unwind(at);
    if (found == 0) return call.at;
    callers[found] = true;
    constexpr std::ptrdiff_t farthest = 256;  // words: frames of these libraries are small
    slot.offset = 0;
    for (std::ptrdiff_t i = 2; i < farthest && slot.offset == 0; ++i)
        if (frame[i] == found) slot.offset = i;
    return reinterpret_cast<void*>(found);
}

namespace {

using Locate = int (*)(const char*, std::uint64_t, const char**, int*, const char**);

Locate locator() {
    static const Locate found = [] {
        Locate function = nullptr;
        Dl_info info{};
        if (::dladdr(reinterpret_cast<void*>(&let_others_run), &info) == 0) return function;
        std::string path = info.dli_fname;
        path = path.substr(0, path.rfind('/') + 1) + "libcairn-mpi-places.so";
        if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
            function = reinterpret_cast<Locate>(::dlsym(library, "cairn_mpi_locate"));
        return function;
    }();
    return found;
}

}  // namespace

causality::Place locate(void* at) {
    causality::Place place;
    Dl_info info{};
    if (::dladdr(static_cast<char*>(at) - 1, &info) == 0 || info.dli_fname == nullptr) return place;
    const auto offset =
        static_cast<std::uint64_t>(static_cast<char*>(at) - static_cast<char*>(info.dli_fbase)) - 1;
    const char* file = nullptr;
    const char* function = nullptr;
    int line = 0;
    if (locator() != nullptr && locator()(info.dli_fname, offset, &file, &line, &function) != 0) {
        place.file = file != nullptr ? file : "";
        place.line = static_cast<std::uint32_t>(std::max(line, 0));
        place.function = function != nullptr ? function : "";
    }
    if (place.file.empty()) {
        const std::string path = info.dli_fname;
        place.file = fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), offset);
    }
    return place;
}

std::string place_of(const std::string& module, std::uint64_t offset) {
    const char* file = nullptr;
    const char* function = nullptr;
    int line = 0;
    const std::string base = module.substr(module.rfind('/') + 1);
    if (locator() == nullptr || locator()(module.c_str(), offset, &file, &line, &function) == 0)
        return fmt::format("{}+{:#x}", base, offset);
    if (file == nullptr) return fmt::format("{} in {}", function, base);
    return function != nullptr ? fmt::format("{}:{} ({})", file, line, function)
                               : fmt::format("{}:{}", file, line);
}

}  // namespace cairn::mpi
