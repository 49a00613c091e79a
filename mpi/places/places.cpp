// libcairn-mpi-places.so: file and line of an address in a program, from its debug information. Loaded when
// the first is asked for.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

char* no_path = nullptr;
constexpr Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &no_path,
};

Dwfl_Module* module_of(const std::string& path) {
    static std::map<std::string, Dwfl_Module*> known;
    const auto [at, is_new] = known.try_emplace(path, nullptr);
    if (!is_new) return at->second;
    Dwfl* session = dwfl_begin(&callbacks);
    if (session == nullptr) return nullptr;
    dwfl_report_begin(session);
    at->second = dwfl_report_offline(session, path.c_str(), path.c_str(), -1);
    dwfl_report_end(session, nullptr, nullptr);
    return at->second;
}

const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

// The innermost function that isn't inlined, else the symbol.
const char* function_at(Dwfl_Module* module, Dwarf_Addr address) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
    Dwarf_Die* scopes = nullptr;
    const int count = unit != nullptr ? dwarf_getscopes(unit, address - bias, &scopes) : 0;
    const char* found = nullptr;
    for (int i = 0; i < count && found == nullptr; ++i)
        if (const int tag = dwarf_tag(&scopes[i]);
            tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine)
            found = dwarf_diename(&scopes[i]);
    std::free(scopes);
    return found != nullptr ? found : dwfl_module_addrname(module, address);
}

}  // namespace

// Of the byte at `offset` from where `module` begins. 0: nothing is known of it.
extern "C" __attribute__((visibility("default"))) int cairn_mpi_locate(const char* module_path,
                                                                       std::uint64_t offset,
                                                                       const char** file, int* line,
                                                                       const char** function) {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    Dwfl_Module* module = module_of(module_path);
    if (module == nullptr) return 0;
    Dwarf_Addr begin = 0;
    dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
    const Dwarf_Addr address = begin + offset;
    *line = 0;
    *file = nullptr;
    if (Dwfl_Line* found = dwfl_module_getsrc(module, address))
        *file = dwfl_lineinfo(found, nullptr, line, nullptr, nullptr, nullptr);
    *function = function_at(module, address);
    if (*file != nullptr) *file = base_name(*file);
    return *file != nullptr || *function != nullptr ? 1 : 0;
}
