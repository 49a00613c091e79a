#include "cli/stacks/python.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>

#include "common/fd.h"

namespace cairn::stacks {
namespace {

using inspect::Frame;

struct EndElf {
    void operator()(Elf* elf) const { elf_end(elf); }
};

// Of "python3.11" and "libpython3.11.so.1.0": 11.
std::optional<unsigned> minor_of(std::string_view path) {
    auto name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("lib")) name.remove_prefix(3);
    constexpr std::string_view prefix = "python3.";
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    unsigned minor = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), minor);
    if (problem != std::errc() || !python::is_known(minor)) return std::nullopt;
    auto rest = name.substr(static_cast<std::size_t>(end - name.data()));
    // What all had before 3.8 (PEP 3149). With other letters its structs are others, too.
    if (minor < 8 && rest.starts_with('m')) rest.remove_prefix(1);
    return rest.empty() || rest.starts_with(".so") ? std::optional(minor) : std::nullopt;
}

// Of a dynamic symbol, as the file has it.
std::optional<std::uint64_t> value_in(Elf* elf, std::string_view symbol) {
    for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
         section = elf_nextscn(elf, section)) {
        GElf_Shdr header{};
        if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM) continue;
        Elf_Data* const data = elf_getdata(section, nullptr);
        GElf_Sym each{};
        for (int i = 0; data != nullptr && gelf_getsym(data, i, &each) != nullptr; ++i) {
            const char* name = elf_strptr(elf, header.sh_link, each.st_name);
            if (name != nullptr && name == symbol && each.st_shndx != SHN_UNDEF) return each.st_value;
        }
    }
    return std::nullopt;
}

std::optional<ProgramAddress> address_in(const Module& module, std::string_view symbol) {
    const Fd file(::open(module.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    elf_version(EV_CURRENT);
    const std::unique_ptr<Elf, EndElf> elf(file ? elf_begin(file.get(), ELF_C_READ, nullptr) : nullptr);
    if (!elf) return std::nullopt;
    const auto value = value_in(elf.get(), symbol);
    if (!value) return std::nullopt;
    return ProgramAddress(*value + load_bias(module));
}

// By the C function that runs them: one call of it runs all up to the one that is an entry.
void add_to(Unwound& stack, std::span<const python::Frame> functions) {
    std::vector<Frame> frames;
    auto next = functions.begin();
    const auto take = [&] {
        Frame frame;
        frame.function = next->function;
        frame.file = next->file;
        frame.line = next->line;
        frame.python = true;
        frames.push_back(std::move(frame));
        return !next++->entry;
    };
    for (auto& frame : stack.frames) {
        // Parts of it may have names of their own (.cold).
        if (frame.function.starts_with("_PyEval_EvalFrameDefault"))
            while (next != functions.end() && take()) {
            }
        frames.push_back(std::move(frame));
    }
    while (next != functions.end()) take();
    stack.frames = std::move(frames);
}

}  // namespace

bool is_python(const std::string& path) {
    return minor_of(path).has_value();
}

std::optional<python::Interpreter> find_python(std::span<const Module> modules) {
    for (const Module& module : modules) {
        const auto minor = minor_of(module.name);
        if (!minor) continue;
        if (const auto runtime = address_in(module, "_PyRuntime"))
            return python::Interpreter{*minor, *runtime};
    }
    return std::nullopt;
}

void add_python(const Subject& subject, std::vector<Unwound>& stacks) {
    for (auto& stack : stacks) {
        const auto registers = std::ranges::find(subject.threads, stack.tid, &Registers::tid);
        if (registers == subject.threads.end()) continue;
        const auto python =
            std::ranges::find(subject.python, registers->values.fs_base, &python::Thread::fs_base);
        if (python == subject.python.end()) continue;
        add_to(stack, python->frames);
        if (python->cut && stack.broken.empty())
            stack.broken =
                fmt::format("only the innermost {} of Python's functions are known", python->frames.size());
    }
}

}  // namespace cairn::stacks
