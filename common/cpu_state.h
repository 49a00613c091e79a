// How a CPU lays out the registers that XSAVE stores, which differs between CPUs: each has the components
// that it knows, and the makers have put them at different offsets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/schema/manifest.h"

namespace cairn {

using StateBytes = std::vector<std::uint8_t>;
using schema::StateComponent;

// What programs may use here of the extended components, in the order of their numbers; by cpuid(0xd) (Intel
// SDM volume 1, 13.2, "Enumeration of CPU support for XSAVE").
[[nodiscard]] std::vector<StateComponent> cpu_state_layout();

// Bytes of a whole area of that layout: the legacy area, the header, and up to the end of the last component.
[[nodiscard]] std::size_t size_of_state(std::span<const StateComponent> layout);

// Bytes of the area up to its last one that isn't zero; never less than the legacy area and the header.
[[nodiscard]] std::size_t size_without_zeros(std::span<const std::uint8_t> area);

// Bits of the components that may have other values than a new thread has, by the area's header.
[[nodiscard]] std::uint64_t components_in_use(std::span<const std::uint8_t> area);

// AMX's tiles: the component that is large, and is to be asked for (ARCH_REQ_XCOMP_PERM).
inline constexpr unsigned tile_data = 18;

// Numbers of the components that the area says are in use, and whose bytes are not all zeros. The first two
// (x87 and SSE) lie in the legacy area and are left out.
[[nodiscard]] std::vector<unsigned> state_in_use(const StateBytes& area,
                                                 std::span<const StateComponent> layout);

// The same registers in the layout `to`: a component that isn't in use is left out. Protection keys are left
// out where `to` hasn't got them: no memory has one there. Errors: the number of a component that is in use
// and that `to` has not, or has with another size.
[[nodiscard]] std::expected<StateBytes, unsigned> lay_out_state(const StateBytes& area,
                                                                std::span<const StateComponent> from,
                                                                std::span<const StateComponent> to);

// "AVX", "AVX-512", ... for messages.
[[nodiscard]] const char* state_name(unsigned component);

}  // namespace cairn
