#include "cli/doctor/container.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "cli/doctor/look.h"

namespace cairn::doctor {
namespace {

struct Capability {
    std::string_view name;
    int number;
};
constexpr std::array named{Capability{"SYS_PTRACE", CAP_SYS_PTRACE}, Capability{"SYS_ADMIN", CAP_SYS_ADMIN},
                           Capability{"SYS_TIME", CAP_SYS_TIME},
                           Capability{"CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE}};

// A user of the container isn't given what the container has.
std::string lacking(std::string_view names) {
    const auto has = std::strtoull(own_status("CapBnd").c_str(), nullptr, 16);
    std::istringstream words{std::string(names)};
    std::string text;
    for (std::string word; words >> word;) {
        const auto known = std::ranges::find(named, word, &Capability::name);
        if (known == named.end() || (has >> known->number & 1) == 0) text += (text.empty() ? "" : " ") + word;
    }
    return text.empty() ? std::string(names) : text;
}

// Each of the names with `before` in front, `between` between two.
std::string each_name(std::string_view names, std::string_view before, std::string_view between) {
    std::istringstream words{std::string(names)};
    std::string text;
    for (std::string word; words >> word;)
        text += fmt::format("{}{}{}", text.empty() ? "" : between, before, word);
    return text;
}

}  // namespace

// systemd's description of the interface names $container and its copies; docker leaves a file, kubernetes a
// variable.
Runtime runtime_here() {
    const auto there = [](const char* path) { return ::access(path, F_OK) == 0; };
    if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return Runtime::kubernetes;
    const char* variable = std::getenv("container");
    std::string said = variable != nullptr ? variable : "";
    for (const char* path : {"/run/systemd/container", "/run/host/container-manager"})
        if (said.empty()) said = first_line(path);
    if (said == "podman" || there("/run/.containerenv")) return Runtime::podman;
    if (said == "docker" || there("/.dockerenv")) return Runtime::docker;
    if (said == "systemd-nspawn") return Runtime::nspawn;
    return said.empty() ? Runtime::none : Runtime::other;
}

std::string_view name_of(Runtime runtime) {
    switch (runtime) {
        case Runtime::none:
            return "";
        case Runtime::podman:
            return "podman";
        case Runtime::docker:
            return "docker";
        case Runtime::nspawn:
            return "systemd-nspawn";
        case Runtime::kubernetes:
            return "kubernetes";
        case Runtime::other:
            return "another runtime";
    }
    return "";
}

std::string add_capabilities(Runtime runtime, std::string_view wanted) {
    const std::string names = lacking(wanted);
    switch (runtime) {
        case Runtime::podman:
        case Runtime::docker:
            return fmt::format("{} run {}", name_of(runtime), each_name(names, "--cap-add=", " "));
        case Runtime::nspawn:
            return "systemd-nspawn --capability=" + each_name(names, "CAP_", ",");
        case Runtime::kubernetes:
            return fmt::format("in the pod's description: securityContext: capabilities: add: [{}]",
                               each_name(names, "", ", "));
        case Runtime::none:
        case Runtime::other:
            break;
    }
    return "start the container with " + each_name(names, "--cap-add=", " ");
}

std::string allow_call(Runtime runtime, std::string_view call) {
    switch (runtime) {
        case Runtime::podman:
        case Runtime::docker:
            return fmt::format(
                "{} run --security-opt seccomp=FILE, with a profile that allows {} "
                "(examples/containers/profile.py)",
                name_of(runtime), call);
        case Runtime::nspawn:
            return fmt::format("systemd-nspawn --system-call-filter={}", call);
        case Runtime::kubernetes:
            return fmt::format(
                "in the pod's description: securityContext: seccompProfile, with a profile that allows {}",
                call);
        case Runtime::none:
        case Runtime::other:
            break;
    }
    return fmt::format("in a container: a seccomp filter that allows {}", call);
}

// systemd-nspawn gives the capability, and its filter doesn't know the call.
std::string allow_call(Runtime runtime, std::string_view call, std::string_view capability) {
    return runtime == Runtime::nspawn ? allow_call(runtime, call) : add_capabilities(runtime, capability);
}

}  // namespace cairn::doctor
