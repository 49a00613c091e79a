#include "witness/compare.h"

#include <algorithm>
#include <regex>
#include <set>

#include "witness/memory.h"
#include "witness/rules.h"

namespace cairn::witness {
namespace {

struct Compiled {
    std::regex name;
    std::optional<std::regex> value;
    How how = How::ignored;
};

std::vector<Compiled> compile(Programs programs) {
    std::vector<Compiled> made;
    const auto add = [&](std::span<const Rule> several) {
        for (const Rule& rule : several) {
            made.push_back({std::regex(rule.name, std::regex::optimize), std::nullopt, rule.how});
            if (rule.value != nullptr) made.back().value = std::regex(rule.value, std::regex::optimize);
        }
    };
    add(rules());
    if (programs == Programs::go_on) add(rules_of_living());
    return made;
}

// Numbers that the kernel gives, before and after.
class Renamings {
  public:
    // Whether both values are the same but for their number, which is renamed as it is everywhere else.
    bool fits(const std::regex& form, const std::string& before, const std::string& after) {
        std::smatch first, second;
        if (!std::regex_match(before, first, form) || !std::regex_match(after, second, form)) return false;
        const auto around = [](const std::string& value, const std::smatch& match) {
            return value.substr(0, static_cast<std::size_t>(match.position(1))) + "*" +
                   value.substr(static_cast<std::size_t>(match.position(1) + match.length(1)));
        };
        if (around(before, first) != around(after, second)) return false;
        const auto there = now_.try_emplace(first[1], second[1]).first;
        const auto back = once_.try_emplace(second[1], first[1]).first;
        return there->second == second[1] && back->second == first[1];
    }

  private:
    std::map<std::string, std::string> now_, once_;
};

// `renamings`: one for each rule.
bool excused(const Difference& difference, const std::vector<Compiled>& compiled,
             std::vector<Renamings>& renamings) {
    for (std::size_t number = 0; number < compiled.size(); ++number) {
        const Compiled& rule = compiled[number];
        if (!std::regex_match(difference.name, rule.name)) continue;
        if (rule.how == How::renamed) {
            if (difference.before && difference.after &&
                renamings[number].fits(*rule.value, *difference.before, *difference.after))
                return true;
            continue;
        }
        if (rule.how == How::if_seen) {
            if (!difference.before || !difference.after) return true;
            continue;
        }
        if (rule.how == How::in_parts) {
            const auto rest = [&](const std::string& value) {
                return std::regex_replace(value, *rule.value, "");
            };
            if (difference.before && difference.after && rest(*difference.before) == rest(*difference.after))
                return true;
            continue;
        }
        if (!rule.value) return true;
        const auto fits = [&](const std::optional<std::string>& value) {
            return !value || std::regex_match(*value, *rule.value);
        };
        if (fits(difference.before) && fits(difference.after)) return true;
    }
    return false;
}

// "pipe:[123]", "net:[4026531840]", "/dev/pts/3": where the kernel's number is part of a name. A number alone
// says too little: files on two devices have the same.
bool has_number_in_name(const Difference& same) {
    return same.before && (same.name.ends_with("/leads to") || same.name.find("/ns/") != std::string::npos);
}

void keep_number(const Difference& same, const std::vector<Compiled>& compiled,
                 std::vector<Renamings>& renamings) {
    for (std::size_t number = 0; number < compiled.size(); ++number)
        if (compiled[number].how == How::renamed && std::regex_match(same.name, compiled[number].name))
            (void)renamings[number].fits(*compiled[number].value, *same.before, *same.before);
}

std::optional<std::string> value_in(const Facts& facts, const std::string& name) {
    const auto found = facts.all().find(name);
    return found == facts.all().end() ? std::nullopt : std::optional(found->second);
}

// "1234/map/7ffd1234000 [stack]/page/30" of a process of which a thread stands elsewhere on its stack: cairn
// finishes in its name what was written in part (a `write` that had to wait), and so another part of the
// stack is alive.
bool stands_elsewhere(const std::string& name, const std::set<std::string>& moved) {
    return moved.contains(name.substr(0, name.find('/'))) && name.find("/page/") != std::string::npos &&
           (name.find(" [stack]/") != std::string::npos || name.find(" anonymous/") != std::string::npos);
}

// Mappings whose content wasn't seen in one of the looks.
class NotSeen {
  public:
    explicit NotSeen(const std::set<std::string>& names) {
        const std::string_view mark = content_not_seen;
        for (const std::string& name : names)
            if (name.ends_with(mark)) mappings_.insert(name.substr(0, name.size() - mark.size()));
    }

    [[nodiscard]] bool hides(const std::string& name) const {
        for (const char* part : {"/page/", "/content"})
            // "/content not seen" itself as well.
            if (const std::size_t at = name.find(part);
                at != std::string::npos && mappings_.contains(name.substr(0, at)))
                return true;
        return false;
    }

  private:
    std::set<std::string> mappings_;
};

}  // namespace

std::vector<Difference> differences(std::span<const Facts> before, std::span<const Facts> after,
                                    Programs programs) {
    std::set<std::string> names;
    for (const auto& looks : {before, after})
        for (const Facts& facts : looks)
            for (const auto& [name, value] : facts.all()) names.insert(name);
    std::vector<Difference> changed, found;
    const std::vector<Compiled> rules = compile(programs);
    std::vector<Renamings> renamings(rules.size());
    const NotSeen not_seen(names);
    for (const std::string& name : names) {
        if (not_seen.hides(name)) continue;
        Difference each{name, value_in(before.front(), name), value_in(after.front(), name)};
        const auto as_before = [&](const Facts& facts) { return value_in(facts, name) == each.before; };
        if (!std::ranges::all_of(before, as_before)) continue;
        if (std::ranges::none_of(after, as_before))
            changed.push_back(std::move(each));
        else if (has_number_in_name(each))
            // Its number has stayed, and so nobody else may have got it.
            keep_number(each, rules, renamings);
    }
    for (Difference& each : changed)
        if (!excused(each, rules, renamings)) found.push_back(std::move(each));
    std::set<std::string> moved;
    std::erase_if(found, [&](const Difference& each) {
        const bool pointer = each.name.find("/stack pointer/") != std::string::npos;
        if (pointer) moved.insert(each.name.substr(0, each.name.find('/')));
        return pointer;
    });
    std::erase_if(found, [&](const Difference& each) { return stands_elsewhere(each.name, moved); });
    return found;
}

std::string rules_as_text() {
    std::string text;
    const auto add = [&](std::span<const Rule> several) {
        for (const Rule& rule : several) {
            const char* how = rule.how == How::renamed    ? "renamed in"
                              : rule.how == How::in_parts ? "without"
                                                          : "is";
            text += rule.name;
            if (rule.value != nullptr) text += fmt::format(" {} {}", how, rule.value);
            text += fmt::format("\n    {}\n", rule.reason);
        }
    };
    add(rules());
    text += "\nWith --living:\n";
    add(rules_of_living());
    return text;
}

}  // namespace cairn::witness
