// libdwfl unwinds where it is told what a word of memory is, and what threads have in their registers
// (dwfl_attach_state() of elfutils/libdwfl.h): here that comes from copies.
#include <cxxabi.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/user.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "cli/stacks/python.h"
#include "cli/stacks/unwind.h"

namespace cairn::stacks {
namespace {

using inspect::Frame;

constexpr std::size_t most_frames = 10'000;  // of a recursion without an end
constexpr std::uint64_t page_mask = ~std::uint64_t{4095};

constexpr Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = nullptr,
};

struct EndDwfl {
    void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

// A symbol without its version; a C++ name without its arguments.
std::string plain_name(const char* symbol) {
    if (symbol == nullptr) return {};
    const std::string base = std::string(symbol).substr(0, std::strcspn(symbol, "@"));
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> readable(
        abi::__cxa_demangle(base.c_str(), nullptr, nullptr, &status), std::free);
    std::string name = status == 0 ? readable.get() : base;
    if (status == 0) {
        // The arguments begin at the last parenthesis that is in no other and in no template's brackets.
        int depth = 0;
        for (std::size_t i = name.size(); i-- > 0;) {
            if (name[i] == ')' || name[i] == '>') ++depth;
            if (name[i] == '<' || name[i] == '(') --depth;
            if (name[i] == '(' && depth == 0) {
                if (i != 0) name.resize(i);
                break;
            }
        }
    }
    return name;
}

// Of the file's first segment, which is mapped at the module's start.
std::uint64_t first_address(const std::string& head, const Elf64_Ehdr& elf) {
    for (std::uint64_t i = 0; i < elf.e_phnum; ++i) {
        Elf64_Phdr header{};
        const std::uint64_t at = elf.e_phoff + i * sizeof header;
        if (at > head.size() || head.size() - at < sizeof header) break;
        std::memcpy(&header, head.data() + at, sizeof header);
        if (header.p_type == PT_LOAD) return header.p_vaddr & page_mask;
    }
    return 0;
}

struct Scopes {
    std::unique_ptr<Dwarf_Die, void (*)(void*)> dies{nullptr, std::free};
    int count = 0;
};

template <class Ask>
Scopes scopes_by(const Ask& ask) {
    Dwarf_Die* found = nullptr;
    Scopes scopes;
    scopes.count = ask(&found);
    scopes.dies.reset(found);
    return scopes;
}

class Unwinder {
  public:
    explicit Unwinder(const Subject& subject) : subject_(subject) {}

    Result<std::vector<Unwound>> run() {
        dwfl_.reset(dwfl_begin(&callbacks));
        if (!dwfl_) return fail("libdwfl: {}", dwfl_errmsg(-1));
        dwfl_report_begin(dwfl_.get());
        for (const auto& module : subject_.modules) report(module);
        dwfl_report_end(dwfl_.get(), nullptr, nullptr);
        static constexpr Dwfl_Thread_Callbacks threads = {
            .next_thread = next_thread,
            .get_thread = nullptr,
            .memory_read = read_word,
            .set_initial_registers = set_registers,
            .detach = nullptr,
            .thread_detach = nullptr,
        };
        // Whose instruction set it is, libdwfl learns from a module; a program without one has nothing to
        // say.
        if (!dwfl_attach_state(dwfl_.get(), nullptr, subject_.pid, &threads, this))
            return fail("libdwfl: {}", dwfl_errmsg(-1));
        dwfl_getthreads(dwfl_.get(), take_thread, this);
        if (problem_) return std::unexpected(std::move(*problem_));
        return std::move(stacks_);
    }

  private:
    void report(const Module& module) {
        if (module.path.empty()) return report_bytes(module);
        if (module.head.size() < sizeof(Elf64_Ehdr) || !module.head.starts_with(ELFMAG)) return;
        dwfl_report_elf(dwfl_.get(), module.name.c_str(), module.path.c_str(), -1, load_bias(module), false);
    }

    void report_bytes(const Module& module) {
        if (!module.bytes.starts_with(ELFMAG)) return;
        const int file = ::memfd_create("vdso", MFD_CLOEXEC);
        if (file < 0 || ::write(file, module.bytes.data(), module.bytes.size()) !=
                            static_cast<ssize_t>(module.bytes.size()))
            return;
        // The descriptor is libdwfl's from now on.
        dwfl_report_elf(dwfl_.get(), module.name.c_str(), module.name.c_str(), file, module.start.value(),
                        false);
    }

    static Unwinder& self(void* argument) { return *static_cast<Unwinder*>(argument); }

    static pid_t next_thread(Dwfl*, void* argument, void** thread) {
        const auto& all = self(argument).subject_.threads;
        const auto* last = static_cast<const Registers*>(*thread);
        const auto* next = last == nullptr ? all.data() : last + 1;
        if (next == all.data() + all.size()) return 0;
        *thread = const_cast<Registers*>(next);
        return next->tid;
    }

    static bool read_word(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
        const auto bytes = self(argument).subject_.read(ProgramAddress(address), sizeof *word);
        if (!bytes) self(argument).problem_ = bytes.error();
        if (!bytes || bytes->size() != sizeof *word) return false;
        std::memcpy(word, bytes->data(), sizeof *word);
        return true;
    }

    // In DWARF's order (System V ABI, AMD64, figure 3.36).
    static bool set_registers(Dwfl_Thread* thread, void* argument) {
        const auto& r = static_cast<const Registers*>(argument)->values;
        const std::array<Dwarf_Word, 17> words = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi,
                                                  r.rbp, r.rsp, r.r8,  r.r9,  r.r10, r.r11,
                                                  r.r12, r.r13, r.r14, r.r15, r.rip};
        return dwfl_thread_state_registers(thread, 0, words.size(), words.data());
    }

    static int take_thread(Dwfl_Thread* thread, void* argument) {
        Unwinder& unwinder = self(argument);
        Unwound& stack = unwinder.stacks_.emplace_back();
        stack.tid = dwfl_thread_tid(thread);
        if (dwfl_thread_getframes(thread, take_frame, argument) < 0) stack.broken = dwfl_errmsg(-1);
        return unwinder.problem_ ? DWARF_CB_ABORT : DWARF_CB_OK;
    }

    static int take_frame(Dwfl_Frame* frame, void* argument) {
        Unwinder& unwinder = self(argument);
        Unwound& stack = unwinder.stacks_.back();
        Dwarf_Addr pc = 0;
        bool is_activation = false;
        if (!dwfl_frame_pc(frame, &pc, &is_activation)) {
            stack.broken = dwfl_errmsg(-1);
            return DWARF_CB_ABORT;
        }
        // Of a caller: behind the call, which may be its function's last instruction.
        unwinder.add_frames(stack, pc, is_activation ? pc : pc - 1);
        if (stack.frames.size() < most_frames) return DWARF_CB_OK;
        stack.broken = "it is too deep";
        return DWARF_CB_ABORT;
    }

    void add_frames(Unwound& stack, Dwarf_Addr pc, Dwarf_Addr inside) {
        Frame frame;
        frame.pc = ProgramAddress(pc);
        Dwfl_Module* const module = dwfl_addrmodule(dwfl_.get(), inside);
        if (module == nullptr) return stack.frames.push_back(std::move(frame));
        if (const char* path =
                dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr))
            frame.module = path;
        if (Dwfl_Line* const line = dwfl_module_getsrc(module, inside))
            if (const char* file = dwfl_lineinfo(line, nullptr, &frame.line, nullptr, nullptr, nullptr))
                frame.file = file;
        add_inlined(stack, module, inside, frame);
        frame.function = plain_name(dwfl_module_addrname(module, inside));
        stack.frames.push_back(std::move(frame));
    }

    // Functions whose code is within their callers': each gets the place that `outer` has had, and leaves its
    // caller the place of the call.
    static void add_inlined(Unwound& stack, Dwfl_Module* module, Dwarf_Addr inside, Frame& outer) {
        Dwarf_Addr bias = 0;
        Dwarf_Die* const unit = dwfl_module_addrdie(module, inside, &bias);
        // What is innermost there, and then what that stands in: the scopes of a place go on from an inlined
        // function to where it was defined, not to its caller.
        const Scopes at_place = scopes_by([&](Dwarf_Die** found) {
            return unit == nullptr ? 0 : dwarf_getscopes(unit, inside - bias, found);
        });
        const Scopes scopes = scopes_by([&](Dwarf_Die** found) {
            return at_place.count <= 0 ? 0 : dwarf_getscopes_die(at_place.dies.get(), found);
        });
        Dwarf_Files* files = nullptr;
        if (scopes.count > 0) dwarf_getsrcfiles(unit, &files, nullptr);
        for (int i = 0; i < scopes.count; ++i) {
            Dwarf_Die* const scope = scopes.dies.get() + i;
            if (dwarf_tag(scope) == DW_TAG_subprogram) break;
            if (dwarf_tag(scope) != DW_TAG_inlined_subroutine) continue;
            Frame frame = outer;
            frame.inlined = true;
            if (const char* name = dwarf_diename(scope)) frame.function = name;
            stack.frames.push_back(std::move(frame));
            Dwarf_Attribute attribute;
            Dwarf_Word number = 0;
            if (dwarf_formudata(dwarf_attr(scope, DW_AT_call_line, &attribute), &number) == 0)
                outer.line = static_cast<int>(number);
            if (files != nullptr &&
                dwarf_formudata(dwarf_attr(scope, DW_AT_call_file, &attribute), &number) == 0)
                if (const char* file = dwarf_filesrc(files, number, nullptr, nullptr)) outer.file = file;
        }
    }

    const Subject& subject_;
    std::unique_ptr<Dwfl, EndDwfl> dwfl_;
    std::vector<Unwound> stacks_;
    std::optional<Error> problem_;
};

}  // namespace

std::uint64_t load_bias(const Module& module) {
    Elf64_Ehdr elf{};
    if (module.head.size() < sizeof elf) return 0;
    std::memcpy(&elf, module.head.data(), sizeof elf);
    return elf.e_type == ET_EXEC ? 0 : module.start.value() - first_address(module.head, elf);
}

Result<std::vector<Unwound>> unwind(const Subject& subject) {
    auto stacks = TRY(Unwinder(subject).run());
    add_python(subject, stacks);
    return stacks;
}

}  // namespace cairn::stacks
