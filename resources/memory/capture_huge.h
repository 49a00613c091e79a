// Contents of hugetlb pages, read without taking a page from the machine's pool where it can be helped: a
// look at a page that isn't there makes it, and where the pool is empty it is SIGBUS for who looks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "resources/memory/capture.h"

namespace cairn::capture {

using Put = std::function<Result<>(std::uint64_t offset, std::span<std::uint8_t>)>;

// Bytes of a page of what this process has mapped at an address; 0: none of hugetlb, or nothing is there.
[[nodiscard]] std::uint64_t huge_page_at(const void* at);

// MFD_HUGETLB with the size of a page, as memfd_create(2) wants it (mmap(2) and shmget(2) have other flags,
// and the size at the same place).
[[nodiscard]] std::int32_t huge_memfd_flags(std::uint64_t page_size);

// Of a System V segment that has been attached at `at` by this process, for writing or not.
[[nodiscard]] Result<> read_huge_attached(const void* at, std::uint64_t size, std::uint64_t page_size,
                                          const Put& put);

// Of memory that nobody has a descriptor of, through the mappings of the programs. What the programs have not
// touched is looked at as well, because a process that has gone may have written to it: that fills holes, but
// those of private mappings stay, and `untouched` is called. Returns the memory's size, bytes.
[[nodiscard]] Result<std::uint64_t> read_huge_mappings(const Memory& memory, const Put& put,
                                                       const std::function<void(const Holder&)>& untouched);

}  // namespace cairn::capture
