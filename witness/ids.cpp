#include "witness/ids.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <regex>
#include <vector>

#include "common/fd.h"
#include "common/region.h"
#include "common/region_ops.h"

namespace cairn::witness {
namespace {

// Where the kernel writes an id: each group of `id` is one, in the values of facts of this name.
struct Place {
    const char* name;
    const char* id;
};
constexpr std::array places{
    Place{".*/stat/(ppid|pgrp|session|tpgid)", "([0-9]+)"},
    Place{".*/status/(Tgid|Pid|PPid|NStgid|NSpid|NSpgid|NSsid)", "([0-9]+)"},
    Place{"[0-9]+/timers/[0-9]+", "[pt]id\\.([0-9]+)"},
    Place{"[0-9]+/fd/[0-9]+/fdinfo/lock .*", "^\\s*[0-9]+: (?:-> )?[A-Z]+ +[A-Z]+ +[A-Z]+ ([0-9]+) "},
    Place{"[0-9]+/fd/[0-9]+/fdinfo/(Pid|NSpid)", "([0-9]+)"},
    Place{".*/robust list/[0-9]+", "owner ([0-9]+)"},
    Place{"[0-9]+/fd/[0-9]+/fcntl/owner", "^[0-9]+ -?([0-9]+)"},
    Place{"[0-9]+/fd/[0-9]+/(leads to|tty/(foreground|session))", "(?:^/proc/|/task/|^)([0-9]+)"},
};

// Those that are shown as bytes: where in the text the eight digits of a pid stand.
struct Bytes {
    const char* name;
    std::size_t at;
    const char* only;  // and of which values alone
};
constexpr std::array in_bytes{
    Bytes{"[0-9]+/fd/[0-9]+/[a-z]+ socket/socket/17( .*)?", 0, "[0-9a-f]{24}"},
    // siginfo of kill, tgkill and sigqueue (si_code is 0 or below), and of SIGCHLD: si_pid is the first
    // behind the head of 16 bytes.
    Bytes{".*/signals/pending of the (thread|process)/.*", 32, "11000000.*|[0-9a-f]{16}(00000000|.{6}ff).*"},
};

constexpr std::size_t digits = 8;

int number_of(std::string_view text) {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

// As a text takes it: what isn't an id (0) stays.
std::string named(const Ids& ids, std::string_view number) {
    const int id = number_of(number);
    return id <= 0 ? std::string(number) : std::to_string(ids.named(KernelId(id)).number());
}

// Every group of `form` that is found in `text`, translated.
std::string replaced(const std::string& text, const std::regex& form, const Ids& ids) {
    std::string made;
    std::size_t behind = 0;
    for (auto found = std::sregex_iterator(text.begin(), text.end(), form); found != std::sregex_iterator();
         ++found) {
        const auto at = static_cast<std::size_t>(found->position(1));
        made += text.substr(behind, at - behind) + named(ids, (*found)[1].str());
        behind = at + static_cast<std::size_t>(found->length(1));
    }
    return made + text.substr(behind);
}

std::string with_bytes(std::string text, std::size_t at, const Ids& ids) {
    if (text.size() < at + digits) return text;
    std::uint32_t number = 0;
    std::from_chars(text.data() + at, text.data() + at + digits, number, 16);
    const auto id = static_cast<std::int32_t>(std::byteswap(number));
    if (id > 0)
        text.replace(
            at, digits,
            fmt::format("{:08x}",
                        std::byteswap(static_cast<std::uint32_t>(ids.named(KernelId(id)).number()))));
    return text;
}

// "ClockID: -213134", the clock of a process or of a thread, which has its id turned round above three bits
// (<linux/posix-timers.h>).
std::string with_clock(const std::string& text, const Ids& ids) {
    static const std::regex form("^ClockID: (-[0-9]+)");
    std::smatch found;
    if (!std::regex_search(text, found, form)) return text;
    constexpr int bits = 3, kind = (1 << bits) - 1;
    const int clock = number_of(found[1].str()), id = ~(clock >> bits);
    if (id <= 0) return text;  // one's own
    const int named = ids.named(KernelId(id)).number();
    return fmt::format("ClockID: {}{}", ~named * (1 << bits) | (clock & kind), found.suffix().str());
}

class Translation {
  public:
    explicit Translation(const Ids& ids) : ids_(ids) {
        for (const Place& place : places) places_.emplace_back(std::regex(place.name), std::regex(place.id));
        for (const Bytes& bytes : in_bytes)
            bytes_.emplace_back(std::regex(bytes.name), bytes.at, std::regex(bytes.only));
    }

    // "1234/task/1235/status/Pid"
    [[nodiscard]] std::string name(const std::string& name) const {
        static const std::regex id("^([0-9]+)(?=/)|/(?:task|stack pointer)/([0-9]+)");
        std::string made;
        std::size_t behind = 0;
        for (auto found = std::sregex_iterator(name.begin(), name.end(), id); found != std::sregex_iterator();
             ++found) {
            const std::size_t group = (*found)[1].matched ? 1 : 2;
            const auto at = static_cast<std::size_t>(found->position(group));
            made += name.substr(behind, at - behind) + named(ids_, (*found)[group].str());
            behind = at + static_cast<std::size_t>(found->length(group));
        }
        return made + name.substr(behind);
    }

    [[nodiscard]] std::string value(const std::string& name, std::string value) const {
        for (const auto& [of, id] : places_)
            if (std::regex_match(name, of)) value = with_clock(replaced(value, id, ids_), ids_);
        for (const auto& [of, at, only] : bytes_)
            if (std::regex_match(name, of) && std::regex_match(value, only))
                value = with_bytes(value, at, ids_);
        return value;
    }

  private:
    struct Compiled {
        std::regex of;
        std::size_t at;
        std::regex only;
    };

    const Ids& ids_;
    std::vector<std::pair<std::regex, std::regex>> places_;
    std::vector<Compiled> bytes_;
};

// Who shares a table or a description names the first who has it, and who is the first is another now.
bool names_the_first(const std::string& name) {
    return name.find("/shares/") != std::string::npos || name.ends_with("/same as");
}

// Of "12/task/13/shares/files": "shares/files" and {12, 13}; of "12/fd/3/same as": {12, 3}.
std::pair<std::string, std::pair<int, int>> taken_apart(const std::string& name) {
    static const std::regex form("([0-9]+)/(?:task|fd)/([0-9]+)/(.*)");
    std::smatch found;
    if (!std::regex_match(name, found, form)) return {name, {0, 0}};
    return {found[3].str(), {number_of(found[1].str()), number_of(found[2].str())}};
}

void name_the_first(Facts& made, const std::vector<std::pair<std::string, std::string>>& shared) {
    std::map<std::pair<std::string, std::string>, std::pair<int, int>> first;
    for (const auto& [name, group] : shared) {
        const auto [what, who] = taken_apart(name);
        const auto [there, is_new] = first.try_emplace({what, group}, who);
        if (!is_new) there->second = std::min(there->second, who);
    }
    for (const auto& [name, group] : shared) {
        const auto what = taken_apart(name).first;
        const auto [pid, number] = first.at({what, group});
        made.put(name, what == "same as" ? fmt::format("{}/fd/{}", pid, number) : std::to_string(number));
    }
}

}  // namespace

Result<Ids> Ids::of_region(const std::string& region) {
    const Fd file(::open(region.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("{}", region);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Region))
        return fail_code(ExitCode::usage, "{}: isn't the region of a session", region);
    void* const at = ::mmap(nullptr, sizeof(Region), PROT_READ, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) return fail_errno("{}", region);
    return Ids({static_cast<const Region*>(at),
                [](const Region* mapped) { ::munmap(const_cast<Region*>(mapped), sizeof(Region)); }});
}

ProgramId Ids::named(KernelId id) const {
    return program_id(region_->ids, id);
}

bool Ids::are_the_kernels() const {
    return region_->ids.used.load(std::memory_order_acquire) == 0;
}

Facts translated(const Facts& facts, const Ids& ids) {
    if (ids.are_the_kernels()) return facts;
    const Translation translation(ids);
    Facts made;
    std::vector<std::pair<std::string, std::string>> shared;
    for (const auto& [name, value] : facts.all()) {
        if (names_the_first(name))
            shared.emplace_back(translation.name(name), value);
        else
            made.put(translation.name(name), translation.value(name, value));
    }
    name_the_first(made, shared);
    return made;
}

}  // namespace cairn::witness
