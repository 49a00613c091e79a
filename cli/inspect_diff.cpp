#include "cli/inspect_diff.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/inspect_show.h"
#include "cli/inspect_text.h"
#include "common/schema/json.h"
#include "resources/schema/json.h"

namespace cairn::inspect {
namespace {

using nlohmann::json;

// Of a process or a thread: measurements, where the program stands, the kernel's own numbers, and what only
// the image itself needs.
constexpr std::array moving{"cpu_ns",
                            "cpu_children_system_us",
                            "cpu_children_user_us",
                            "cpu_system_us",
                            "cpu_user_us",
                            "image",
                            "uid",
                            "registers",
                            "xstate",
                            "xstate_size",
                            "kernel_tid",
                            "timeout_left",
                            "door",
                            "cid",
                            "np",
                            "region_at",
                            "timing_tls",
                            "command",
                            "mapped_bytes",
                            "vdso"};
// Of an object: what numbers it in its checkpoint, and the kernel's numbers.
constexpr std::array numbering{"id", "pipe", "backing", "contents"};

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<const char*, count>& names) {
    for (const char* each : names)
        if (name == each) return true;
    return false;
}

// An array as an object, so that what is in both is compared and not what stands at the same place.
template <class Name>
json keyed(const json& array, const Name& name) {
    json made = json::object();
    for (const json& each : array) made[name(each)] = each;
    return made;
}

class View {
  public:
    View(const Checkpoint& checkpoint, bool all) : checkpoint_(checkpoint), all_(all) {}

    [[nodiscard]] json whole() const {
        json made = json::object();
        const json everything = as_json(checkpoint_);
        for (const json& process : everything.at("processes"))
            made[fmt::format("process {} ({})", process.at("pid").get<std::int64_t>(),
                             process.at("name").get<std::string>())] = of_process(process);
        return made;
    }

  private:
    // Where it isn't a file with a name: its inode, its device, and names that are made of them.
    static void drop_kernels_numbers(json& object) {
        const std::string path = object.value("path", "");
        const auto mode = object.contains("identity") ? object.at("identity").value("mode", 0U) : 0U;
        // A message queue is a file of a file system that each IPC namespace has for itself.
        const bool is_queue = object.contains(json::json_pointer("/what/mqueue"));
        if ((!S_ISREG(mode) && !S_ISDIR(mode)) || is_queue) object.erase("identity");
        if (!path.starts_with('/') || path.starts_with("/dev/pts/")) object.erase("path");
        if (json::json_pointer index("/what/terminal/terminal/index"); object.contains(index))
            object["what"]["terminal"]["terminal"].erase("index");
        // The kernel shows what an epoll watches in the order of its own addresses.
        if (json::json_pointer targets("/what/epoll/targets"); object.contains(targets)) {
            auto& list = object["what"]["epoll"]["targets"];
            std::sort(list.begin(), list.end(), [](const json& one, const json& other) {
                return std::pair(one.value("fd", 0), one.value("data", std::uint64_t{0})) <
                       std::pair(other.value("fd", 0), other.value("data", std::uint64_t{0}));
            });
        }
    }

    [[nodiscard]] json of_object(std::int32_t part, std::int64_t id) const {
        const schema::Object* found = checkpoint_.object(part, id);
        if (found == nullptr) return nullptr;
        json made = schema::to_json(*found);
        for (const char* name : numbering) made.erase(name);
        if (!all_) drop_kernels_numbers(made);
        made["is"] = describe(*found);
        return made;
    }

    // What stands for an object's number.
    void resolve(json& holder, const char* name, std::int32_t part) const {
        if (holder.contains(name) && holder.at(name).is_number())
            holder[name] = of_object(part, holder.at(name).get<std::int64_t>());
    }

    // Runs of pages are [address, length, offset in the image, hash]: how much there is, and whether it is
    // the same, whoever's image has it.
    void digest(json& area) const {
        std::vector<json> runs = area["pages"];
        if (area.contains("borrowed"))
            for (const json& part : area["borrowed"])
                runs.insert(runs.end(), part["pages"].begin(), part["pages"].end());
        std::ranges::sort(runs, {}, [](const json& run) { return run.at(0).get<std::uint64_t>(); });
        std::uint64_t stored = 0, hash = 0;
        for (const json& run : runs) {
            stored += run.at(1).get<std::uint64_t>();
            hash = hash * 31 + run.at(0).get<std::uint64_t>() + run.at(3).get<std::uint64_t>();
        }
        area["stored"] = stored;
        area["content"] = fmt::format("{:016x}", hash);
        if (!all_)
            for (const char* name : {"pages", "borrowed"}) area.erase(name);
    }

    [[nodiscard]] json of_process(const json& process) const {
        json made = process;
        const auto part = process.at("part").get<std::int32_t>();
        if (!all_)
            for (const char* name : moving) made.erase(name);
        for (const char* name : {"cwd", "root", "executable", "terminal"}) resolve(made, name, part);
        if (made.contains("namespaces") && made["namespaces"].is_array())
            for (json& space : made["namespaces"]) space = of_object(part, space.get<std::int64_t>());
        for (json& descriptor : made["descriptors"]) resolve(descriptor, "object", part);
        for (json& area : made["areas"]) {
            resolve(area, "object", part);
            digest(area);
        }
        if (!all_)
            for (json& thread : made["threads"])
                for (const char* name : moving) thread.erase(name);
        const auto number = [](const char* kind, const char* name) {
            return [=](const json& each) {
                return fmt::format("{} {}", kind, each.at(name).get<std::int64_t>());
            };
        };
        json named = json::object();
        named.update(keyed(made["threads"], number("thread", "tid")));
        named.update(keyed(made["areas"], [](const json& each) {
            return fmt::format("memory at {:x}", each.at("start").get<std::uint64_t>());
        }));
        named.update(keyed(made["descriptors"], number("descriptor", "fd")));
        for (const char* name : {"threads", "areas", "descriptors"}) made.erase(name);
        made.update(named);
        return made;
    }

    const Checkpoint& checkpoint_;
    bool all_;
};

void compare(const json& older, const json& newer, std::vector<std::string>& where,
             std::vector<Difference>& found) {
    if (older == newer) return;
    const bool lists = older.is_array() && newer.is_array() && older.size() == newer.size();
    if (!lists && (!older.is_object() || !newer.is_object())) {
        found.push_back({where, older, newer});
        return;
    }
    if (lists) {
        for (std::size_t n = 0; n < older.size(); ++n) {
            where.push_back(std::to_string(n + 1));
            compare(older[n], newer[n], where, found);
            where.pop_back();
        }
        return;
    }
    for (const auto& [name, value] : older.items()) {
        if (name == "is") continue;  // says for people what its neighbours say
        where.push_back(name);
        if (newer.contains(name))
            compare(value, newer.at(name), where, found);
        else
            found.push_back({where, value, std::nullopt});
        where.pop_back();
    }
    for (const auto& [name, value] : newer.items())
        if (!older.contains(name)) {
            where.push_back(name);
            found.push_back({where, std::nullopt, value});
            where.pop_back();
        }
}

// "rw-": PROT_READ, PROT_WRITE, PROT_EXEC.
std::string access_of(const json& area) {
    const int prot = area.value("prot", 0);
    return fmt::format("{}{}{}", (prot & 1) != 0 ? 'r' : '-', (prot & 2) != 0 ? 'w' : '-',
                       (prot & 4) != 0 ? 'x' : '-');
}

// A process, a mapping, a descriptor as a whole; anything else as it is, cut where it is long.
std::string in_short(const json& value) {
    if (value.is_object() && value.contains("start") && value.contains("end")) {
        const auto size = value.at("end").get<std::uint64_t>() - value.at("start").get<std::uint64_t>();
        const auto name = value.value("name", "");
        return fmt::format("{} {} {}", human_size(size), access_of(value),
                           name.empty() ? value.value("kind", "") : name);
    }
    if (value.is_object() && value.contains("object") && value.at("object").is_object())
        return value.at("object").value("is", "?");
    if (value.is_object() && value.contains("ppid")) return "";
    if (value.is_string()) return value.get<std::string>();
    constexpr std::size_t most = 100;
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() > most ? text.substr(0, most) + "..." : text;
}

std::string joined(const std::vector<std::string>& words, std::size_t from) {
    std::string text;
    for (std::size_t n = from; n < words.size(); ++n) text += (n == from ? "" : ", ") + words[n];
    return text;
}

std::string line_of(const Difference& each) {
    if (each.before && each.after) {
        const std::string& what = each.where.back();
        if (what == "content") return fmt::format("{} differs", joined(each.where, 1));
        if (what == "stored" || what == "stored_bytes")
            return fmt::format("{}: {} -> {}", joined(each.where, 1),
                               human_size(each.before->get<std::uint64_t>()),
                               human_size(each.after->get<std::uint64_t>()));
        if (what == "end")
            return fmt::format("{}: {}", joined(each.where, 1),
                               each.after->get<std::int64_t>() > each.before->get<std::int64_t>()
                                   ? fmt::format("{} more", human_size(each.after->get<std::uint64_t>() -
                                                                       each.before->get<std::uint64_t>()))
                                   : fmt::format("{} less", human_size(each.before->get<std::uint64_t>() -
                                                                       each.after->get<std::uint64_t>())));
        return fmt::format("{}: {} -> {}", joined(each.where, 1), in_short(*each.before),
                           in_short(*each.after));
    }
    const std::string what = in_short(each.before ? *each.before : *each.after);
    return fmt::format("{} {}{}{}", each.before ? "-" : "+", joined(each.where, 1), what.empty() ? "" : ": ",
                       what);
}

std::string name_of(const Checkpoint& checkpoint) {
    return checkpoint.manifest ? fmt::format("generation {}", checkpoint.manifest->generation)
                               : checkpoint.folder;
}

}  // namespace

std::vector<Difference> differences(const Checkpoint& older, const Checkpoint& newer, bool all) {
    std::vector<Difference> found;
    std::vector<std::string> where;
    compare(View(older, all).whole(), View(newer, all).whole(), where, found);
    return found;
}

std::string as_text(const Checkpoint& older, const Checkpoint& newer,
                    const std::vector<Difference>& differences) {
    std::string text = fmt::format("{} -> {}", name_of(older), name_of(newer));
    if (older.manifest && newer.manifest) {
        if (older.manifest->cid != newer.manifest->cid) text += ", of another computation";
        text += fmt::format(", {} later, {} -> {} stored",
                            human_time(newer.manifest->taken_at_ns - older.manifest->taken_at_ns),
                            human_size(older.manifest->bytes), human_size(newer.manifest->bytes));
    }
    text += differences.empty() ? ": nothing differs\n" : "\n";
    std::string process;
    for (const Difference& each : differences) {
        if (each.where.size() == 1) {
            text += fmt::format("{} {}\n", each.before ? "-" : "+", printable(each.where.front()));
            continue;
        }
        if (each.where.front() != process) text += printable(process = each.where.front()) + "\n";
        text += "  " + printable(line_of(each)) + "\n";
    }
    return text;
}

nlohmann::json as_json(const std::vector<Difference>& differences) {
    json all = json::array();
    for (const Difference& each : differences) {
        json one{{"where", each.where}};
        if (each.before) one["before"] = *each.before;
        if (each.after) one["after"] = *each.after;
        all.push_back(std::move(one));
    }
    return all;
}

}  // namespace cairn::inspect
