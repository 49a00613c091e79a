#include "witness/compare.h"

#include <algorithm>
#include <regex>
#include <set>

#include "witness/rules.h"

namespace cairn::witness {
namespace {

struct Compiled {
    std::regex name;
    std::optional<std::regex> value;
    How how = How::ignored;
};

const std::vector<Compiled>& compiled() {
    static const std::vector<Compiled> all = [] {
        std::vector<Compiled> made;
        for (const Rule& rule : rules()) {
            made.push_back({std::regex(rule.name, std::regex::optimize), std::nullopt, rule.how});
            if (rule.value != nullptr) made.back().value = std::regex(rule.value, std::regex::optimize);
        }
        return made;
    }();
    return all;
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

bool excused(const Difference& difference, Renamings& renamings) {
    for (const Compiled& rule : compiled()) {
        if (!std::regex_match(difference.name, rule.name)) continue;
        if (rule.how == How::renamed) {
            if (difference.before && difference.after &&
                renamings.fits(*rule.value, *difference.before, *difference.after))
                return true;
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

std::optional<std::string> value_in(const Facts& facts, const std::string& name) {
    const auto found = facts.all().find(name);
    return found == facts.all().end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::vector<Difference> differences(std::span<const Facts> before, std::span<const Facts> after) {
    std::set<std::string> names;
    for (const auto& looks : {before, after})
        for (const Facts& facts : looks)
            for (const auto& [name, value] : facts.all()) names.insert(name);
    std::vector<Difference> found;
    Renamings renamings;
    for (const std::string& name : names) {
        Difference each{name, value_in(before.front(), name), value_in(after.front(), name)};
        const auto as_before = [&](const Facts& facts) { return value_in(facts, name) == each.before; };
        if (std::ranges::all_of(before, as_before) && std::ranges::none_of(after, as_before) &&
            !excused(each, renamings))
            found.push_back(std::move(each));
    }
    return found;
}

std::string rules_as_text() {
    std::string text;
    for (const Rule& rule : rules()) {
        const std::string value = rule.value == nullptr ? ""
                                                        : fmt::format(" {} {}",
                                                                      rule.how == How::renamed ? "renamed in"
                                                                      : rule.how == How::in_parts ? "without"
                                                                                                  : "is",
                                                                      rule.value);
        text += fmt::format("{}{}\n    {}\n", rule.name, value, rule.reason);
    }
    return text;
}

}  // namespace cairn::witness
