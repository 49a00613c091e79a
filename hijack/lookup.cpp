#include "hijack/lookup.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace cairn::hijack {
namespace {

constexpr ElfW(Versym) hidden_version = 0x8000;  // not what an unversioned name means

bool equal(const char* one, const char* other) {
    while (*one != '\0' && *one == *other) {
        ++one;
        ++other;
    }
    return *one == *other;
}

// The hash of DT_GNU_HASH.
std::uint32_t gnu_hash(const char* name) {
    std::uint32_t hash = 5381;
    for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
    return hash;
}

// The hash of DT_HASH (System V ABI).
std::uint32_t elf_hash(const char* name) {
    std::uint32_t hash = 0;
    for (; *name != '\0'; ++name) {
        hash = (hash << 4) + static_cast<unsigned char>(*name);
        const std::uint32_t high = hash & 0xf0000000U;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

// The symbols of one library.
class Symbols {
  public:
    explicit Symbols(const link_map& library) : base_(library.l_addr) {
        if (library.l_ld == nullptr) return;
        for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
            switch (entry->d_tag) {
                case DT_SYMTAB:
                    symbols_ = at<ElfW(Sym)>(entry->d_un.d_ptr);
                    break;
                case DT_STRTAB:
                    strings_ = at<char>(entry->d_un.d_ptr);
                    break;
                case DT_GNU_HASH:
                    gnu_ = at<std::uint32_t>(entry->d_un.d_ptr);
                    break;
                case DT_HASH:
                    plain_ = at<std::uint32_t>(entry->d_un.d_ptr);
                    break;
                case DT_VERSYM:
                    versions_ = at<ElfW(Versym)>(entry->d_un.d_ptr);
                    break;
                default:
                    break;
            }
        }
    }

    [[nodiscard]] void* find(const char* name) const {
        if (symbols_ == nullptr || strings_ == nullptr) return nullptr;
        const ElfW(Sym)* found = gnu_ != nullptr     ? by_gnu_hash(name)
                                 : plain_ != nullptr ? by_plain_hash(name)
                                                     : nullptr;
        if (found == nullptr) return nullptr;
        const std::uintptr_t address = base_ + found->st_value;
        if (ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC) return reinterpret_cast<void* (*)()>(address)();
        return reinterpret_cast<void*>(address);
    }

  private:
    // The dynamic linker has relocated the addresses of the section, unless the section can't be written (the
    // vdso's).
    template <class T>
    const T* at(std::uintptr_t address) const {
        return reinterpret_cast<const T*>(address < base_ ? address + base_ : address);
    }

    [[nodiscard]] bool is(std::uint32_t number, const char* name) const {
        const ElfW(Sym)& symbol = symbols_[number];
        const unsigned type = ELF64_ST_TYPE(symbol.st_info);
        return symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
               type != STT_TLS && (versions_ == nullptr || (versions_[number] & hidden_version) == 0) &&
               equal(strings_ + symbol.st_name, name);
    }

    // Words: number of buckets, first symbol in the table, words of the filter, shift; filter; buckets;
    // chains, whose last hash has the lowest bit set.
    [[nodiscard]] const ElfW(Sym) * by_gnu_hash(const char* name) const {
        const std::uint32_t hash = gnu_hash(name);
        const std::uint32_t buckets = gnu_[0];
        const std::uint32_t first = gnu_[1];
        const std::uint32_t filter_words = gnu_[2];
        const auto* filter = reinterpret_cast<const ElfW(Addr)*>(gnu_ + 4);
        const auto* bucket = reinterpret_cast<const std::uint32_t*>(filter + filter_words);
        const std::uint32_t* chain = bucket + buckets;
        if (buckets == 0) return nullptr;
        const ElfW(Addr) word = filter[(hash / 64) & (filter_words - 1)];
        if ((word >> (hash % 64) & word >> ((hash >> gnu_[3]) % 64) & 1) == 0) return nullptr;
        std::uint32_t number = bucket[hash % buckets];
        if (number < first) return nullptr;
        for (;; ++number) {
            const std::uint32_t its = chain[number - first];
            if ((its | 1U) == (hash | 1U) && is(number, name)) return symbols_ + number;
            if ((its & 1U) != 0) return nullptr;
        }
    }

    // Words: number of buckets, number of chains; buckets; chains, which end with 0.
    [[nodiscard]] const ElfW(Sym) * by_plain_hash(const char* name) const {
        if (plain_[0] == 0) return nullptr;
        const std::uint32_t* bucket = plain_ + 2;
        const std::uint32_t* chain = bucket + plain_[0];
        for (std::uint32_t number = bucket[elf_hash(name) % plain_[0]]; number != 0; number = chain[number])
            if (is(number, name)) return symbols_ + number;
        return nullptr;
    }

    std::uintptr_t base_;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* strings_ = nullptr;
    const std::uint32_t* gnu_ = nullptr;
    const std::uint32_t* plain_ = nullptr;
    const ElfW(Versym) * versions_ = nullptr;
};

}  // namespace

void* find_behind_us(const char* name) {
    // _DYNAMIC is our own dynamic section, by which we know ourselves in the list.
    const link_map* library = _r_debug.r_map;
    while (library != nullptr && library->l_ld != _DYNAMIC) library = library->l_next;
    if (library == nullptr) return nullptr;
    for (library = library->l_next; library != nullptr; library = library->l_next)
        if (void* found = Symbols(*library).find(name)) return found;
    return nullptr;
}

}  // namespace cairn::hijack
