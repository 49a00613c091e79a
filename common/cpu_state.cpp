#include "common/cpu_state.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace cairn {
namespace {

constexpr unsigned state_leaf = 0xd;
constexpr std::size_t header_at = 512, components_at = 576;  // Intel SDM volume 1, 13.4
constexpr unsigned protection_keys = 9;

constexpr std::pair<unsigned, const char*> names[] = {{2, "AVX"},
                                                      {3, "MPX"},
                                                      {4, "MPX"},
                                                      {5, "AVX-512"},
                                                      {6, "AVX-512"},
                                                      {7, "AVX-512"},
                                                      {9, "protection keys"},
                                                      {17, "AMX"},
                                                      {18, "AMX"},
                                                      {19, "APX"}};

// What the area has of the component: zeros at the area's end may have been left out.
std::span<const std::uint8_t> bytes_of(const StateBytes& area, const StateComponent& component) {
    if (component.offset < components_at || area.size() <= component.offset) return {};
    const auto rest = std::span(area).subspan(component.offset);
    return rest.first(std::min<std::size_t>(component.size, rest.size()));
}

}  // namespace

std::vector<StateComponent> cpu_state_layout() {
    std::array<unsigned, 4> said{};
    std::vector<StateComponent> layout;
    if (__get_cpuid_count(state_leaf, 0, &said[0], &said[1], &said[2], &said[3]) == 0) return layout;
    // What XCR0 may have is more than what the kernel has switched on.
    constexpr unsigned osxsave = 1U << 27;
    std::array<unsigned, 4> basic{};
    if (__get_cpuid(1, &basic[0], &basic[1], &basic[2], &basic[3]) == 0 || (basic[2] & osxsave) == 0)
        return layout;
    std::uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const std::uint64_t enabled = std::uint64_t{high} << 32 | low;
    for (unsigned number = 2; number < 63; ++number) {
        if ((enabled >> number & 1) == 0 ||
            __get_cpuid_count(state_leaf, number, &said[0], &said[1], &said[2], &said[3]) == 0)
            continue;
        layout.push_back({number, said[1], said[0]});
    }
    return layout;
}

std::size_t size_of_state(std::span<const StateComponent> layout) {
    std::size_t size = components_at;
    for (const auto& component : layout)
        size = std::max<std::size_t>(size, std::size_t{component.offset} + component.size);
    return size;
}

std::size_t size_without_zeros(std::span<const std::uint8_t> area) {
    std::size_t size = area.size();
    // By words as far as they go: most of a large area is zeros.
    for (std::uint64_t word = 0; size >= components_at + sizeof word; size -= sizeof word) {
        std::memcpy(&word, area.data() + size - sizeof word, sizeof word);
        if (word != 0) break;
    }
    while (size > components_at && area[size - 1] == 0) --size;
    return size;
}

std::uint64_t components_in_use(std::span<const std::uint8_t> area) {
    std::uint64_t bits = 0;
    if (area.size() >= components_at) std::memcpy(&bits, area.data() + header_at, sizeof bits);
    return bits;
}

std::vector<unsigned> state_in_use(const StateBytes& area, std::span<const StateComponent> layout) {
    std::vector<unsigned> used;
    const auto bits = components_in_use(area);
    for (const auto& component : layout)
        if ((bits >> component.number & 1) != 0 &&
            std::ranges::any_of(bytes_of(area, component), [](auto byte) { return byte != 0; }))
            used.push_back(component.number);
    return used;
}

std::expected<StateBytes, unsigned> lay_out_state(const StateBytes& area,
                                                  std::span<const StateComponent> from,
                                                  std::span<const StateComponent> to) {
    StateBytes result(size_of_state(to));
    std::copy_n(area.begin(), std::min(area.size(), header_at), result.begin());
    const auto bits = components_in_use(area);
    std::uint64_t kept = bits & 3;
    for (const auto number : state_in_use(area, from)) {
        const auto here = std::ranges::find(to, number, &StateComponent::number);
        const auto there = std::ranges::find(from, number, &StateComponent::number);
        if (here == to.end() && number == protection_keys) continue;
        if (here == to.end() || here->size != there->size) return std::unexpected(number);
        std::ranges::copy(bytes_of(area, *there), result.begin() + static_cast<std::ptrdiff_t>(here->offset));
        kept |= std::uint64_t{1} << number;
    }
    std::memcpy(result.data() + header_at, &kept, sizeof kept);
    return result;
}

const char* state_name(unsigned component) {
    const auto* found = std::ranges::find(names, component, &std::pair<unsigned, const char*>::first);
    return found == std::end(names) ? "other registers" : found->second;
}

}  // namespace cairn
