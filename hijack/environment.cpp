#include "hijack/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "hijack/resident.h"

namespace cairn::hijack {
namespace {

constexpr const char* env_preload = "LD_PRELOAD";

// The value if `entry` is NAME=value, else null.
const char* value_of(const char* entry, const char* name) {
    const std::size_t length = std::strlen(name);
    return std::strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : nullptr;
}

bool separator(char c) {
    return c == ':' || c == ' ';  // ld.so(8)
}

// Calls `each` with begin and length of every library in a value of LD_PRELOAD.
template <class Each>
void for_each_library(const char* list, Each each) {
    while (*list != '\0') {
        std::size_t length = 0;
        while (list[length] != '\0' && !separator(list[length])) ++length;
        if (length != 0) each(list, length);
        list += length;
        if (*list != '\0') ++list;
    }
}

bool is_ours(const char* begin, std::size_t length) {
    return std::strncmp(begin, resident.library_path, length) == 0 && resident.library_path[length] == '\0';
}

bool holds_ours(const char* preload) {
    bool found = false;
    for_each_library(preload,
                     [&](const char* begin, std::size_t length) { found |= is_ours(begin, length); });
    return found;
}

// "OWNER:NAME", what the new image wants to know of the gate. Empty where there is none.
struct GateText {
    char text[sizeof(Region::gate) + 16];
};

GateText gate_text() {
    GateText result = {};
    if (region() == nullptr || region()->gate[0] == '\0') return result;
    char* to = result.text;
    char digits[12];
    int count = 0;
    for (std::uint32_t left = region()->owner; left != 0 || count == 0; left /= 10)
        digits[count++] = static_cast<char>('0' + left % 10);
    while (count > 0) *to++ = digits[--count];
    *to++ = ':';
    for (std::size_t i = 0; i < sizeof(Region::gate) && region()->gate[i] != '\0'; ++i)
        *to++ = region()->gate[i];
    return result;
}

char* put(char* to, const char* text) {
    const std::size_t length = std::strlen(text);
    std::memcpy(to, text, length);
    return to + length;
}

// NAME=first:second at `to`, for first and second that may be empty.
char* put_variable(char* to, const char* name, const char* first, const char* second = "") {
    to = put(put(put(to, name), "="), first);
    if (*first != '\0' && *second != '\0') *to++ = ':';
    to = put(to, second);
    *to++ = '\0';
    return to;
}

}  // namespace

const char* variable(char* const* environment, const char* name) {
    for (; environment != nullptr && *environment != nullptr; ++environment)
        if (const char* value = value_of(*environment, name)) return value;
    return nullptr;
}

EnvironmentPlan plan_environment(char* const* given, Membership membership) {
    EnvironmentPlan plan = {};
    plan.given = given;
    plan.membership = membership;
    const GateText gate = gate_text();
    plan.wants_gate = membership != Membership::outside && gate.text[0] != '\0' && elsewhere();
    std::size_t count = 0;
    for (; given != nullptr && given[count] != nullptr; ++count) {
        if (given[count][0] != 'L' && given[count][0] != 'C') continue;
        if (const char* value = value_of(given[count], env_preload);
            value != nullptr && plan.preload == nullptr)
            plan.preload = value;
        if (const char* value = value_of(given[count], env_region)) {
            plan.has_region = true;
            plan.right_region = std::strcmp(value, region_path()) == 0;
        }
        plan.has_library |= value_of(given[count], env_library) != nullptr;
        if (const char* value = value_of(given[count], env_gate)) {
            plan.has_gate = true;
            plan.right_gate = std::strcmp(value, gate.text) == 0;
        }
    }
    // Who is in no session has nothing to add.
    if (region() == nullptr) plan.right_region = plan.has_library = true;
    const bool ours = plan.preload != nullptr && holds_ours(plan.preload);
    plan.complete = membership != Membership::outside
                        ? ours == (membership == Membership::member) && plan.right_region &&
                              plan.has_library && (!plan.wants_gate || plan.right_gate)
                        : !ours && !plan.has_region && !plan.has_library && !plan.has_gate;
    const std::size_t preload_length = plan.preload == nullptr ? 0 : std::strlen(plan.preload);
    plan.bytes = (count + 5) * sizeof(char*) + preload_length + 2 * std::strlen(resident.library_path) +
                 std::strlen(region_path()) + sizeof gate.text + 96;
    return plan;
}

char** build_environment(const EnvironmentPlan& plan, void* memory) {
    auto** const built = static_cast<char**>(memory);
    std::size_t count = 0;
    for (char* const* entry = plan.given; entry != nullptr && *entry != nullptr; ++entry) {
        const bool outside = plan.membership == Membership::outside;
        if (value_of(*entry, env_preload) != nullptr ||
            (value_of(*entry, env_region) != nullptr && (outside || !plan.right_region)) ||
            (value_of(*entry, env_library) != nullptr && outside) ||
            (value_of(*entry, env_gate) != nullptr && (outside || !plan.right_gate)))
            continue;
        built[count++] = *entry;
    }
    auto* text = reinterpret_cast<char*>(built + count + 5);
    const auto add = [&](const char* name, const char* first, const char* second) {
        built[count++] = text;
        text = put_variable(text, name, first, second);
    };
    const char* theirs = plan.preload == nullptr ? "" : plan.preload;
    if (plan.membership == Membership::member)
        add(env_preload, holds_ours(theirs) ? "" : resident.library_path, theirs);
    if (plan.membership != Membership::outside) {
        if (!plan.right_region) add(env_region, region_path(), "");
        if (!plan.has_library) add(env_library, resident.library_path, "");
        if (plan.wants_gate && !plan.right_gate) add(env_gate, gate_text().text, "");
    }
    if (plan.membership != Membership::member) {
        char* const begin = text;
        char* end = put(text, "LD_PRELOAD=");
        char* const value = end;
        for_each_library(theirs, [&](const char* library, std::size_t length) {
            if (is_ours(library, length)) return;
            if (end != value) *end++ = ':';
            std::memcpy(end, library, length);
            end += length;
        });
        *end = '\0';
        if (end != value) built[count++] = begin;
    }
    built[count] = nullptr;
    return built;
}

void complete_environ() {
    const EnvironmentPlan plan = plan_environment(environ, Membership::member);
    if (plan.complete) return;
    // The program has taken them out of its own environment. setenv allocates, as the functions do that we
    // are in.
    auto* text = static_cast<char*>(::alloca(plan.bytes));
    const char* theirs = plan.preload == nullptr ? "" : plan.preload;
    if (!holds_ours(theirs)) {
        put_variable(text, env_preload, resident.library_path, theirs);
        ::setenv(env_preload, text + std::strlen(env_preload) + 1, 1);
    }
    ::setenv(env_region, region_path(), 1);
    ::setenv(env_library, resident.library_path, 0);
    if (plan.wants_gate) ::setenv(env_gate, gate_text().text, 1);
}

}  // namespace cairn::hijack
