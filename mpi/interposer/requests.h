// The requests of a program that the layer must know: receives, and what belongs to them.
#pragma once

#include <vector>

#include "mpi/interposer/mpi_library.h"

namespace cairn::mpi {

struct Posted {
    std::uint64_t key = 0;    // the handle's bits
    std::uint64_t post = 0;   // number among this process's posted receives
    std::uint64_t match = 0;  // number among those that could get another message, if `wild`
    bool used = false;
    bool any_source = false, any_tag = false;
    bool cancel = false;  // MPI_Cancel was called
    bool persistent = false, active = false;
    bool send = false;        // persistent; alone any
    bool collective = false;  // with contents: it brings something
    bool matched = false;     // of an Imrecv: by a probe before
    bool stand_in = false;    // replay: persistent, and never started itself
    bool dead = false;        // replay: it gets no message in the record, and is a receive that never will
    bool truncated = false;   // replay: what it got was taken out early (early.h), and is too long for it
    // A receive's arguments, with contents or if it is persistent; in replay what was started in its place.
    void* buffer = nullptr;
    int count = 0, source = 0, tag = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request inner = MPI_REQUEST_NULL;
    bool has_inner = false;

    [[nodiscard]] bool open() const { return !persistent || active; }
    [[nodiscard]] bool wild() const { return any_source || any_tag; }
};

// By handle: open addressing, erased by shifting back. Pointers are good until the next change.
class Requests {
  public:
    Requests() : slots_(64) {}
    Posted* find(std::uint64_t key) {
        if (size_ == 0) return nullptr;
        for (std::size_t i = home(key);; i = next(i)) {
            if (!slots_[i].used) return nullptr;
            if (slots_[i].key == key) return &slots_[i];
        }
    }
    Posted* find(MPI_Request request) { return find(bits(request)); }
    Posted& add(std::uint64_t key) {
        if (Posted* there = find(key)) {
            *there = Posted();
            there->key = key;
            there->used = true;
            return *there;
        }
        if (size_ * 2 >= slots_.size()) grow();
        ++size_;
        return place(key);
    }
    void erase(std::uint64_t key) {
        Posted* found = find(key);
        if (found == nullptr) return;
        --size_;
        auto hole = static_cast<std::size_t>(found - slots_.data());
        for (std::size_t i = next(hole); slots_[i].used; i = next(i)) {
            const std::size_t h = home(slots_[i].key);
            const bool stays = hole < i ? (h > hole && h <= i) : (h > hole || h <= i);
            if (stays) continue;
            slots_[hole] = slots_[i];
            hole = i;
        }
        slots_[hole] = Posted();
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    template <class F>
    void each(const F& visit) {
        for (Posted& slot : slots_)
            if (slot.used) visit(slot);
    }

  private:
    [[nodiscard]] std::size_t home(std::uint64_t key) const {
        return (key * 0x9e3779b97f4a7c15U >> 32) & (slots_.size() - 1);
    }
    [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }
    Posted& place(std::uint64_t key) {
        std::size_t i = home(key);
        while (slots_[i].used) i = next(i);
        slots_[i] = Posted();
        slots_[i].key = key;
        slots_[i].used = true;
        return slots_[i];
    }
    void grow() {
        std::vector<Posted> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Posted& slot : old)
            if (slot.used) place(slot.key) = slot;
    }

    std::vector<Posted> slots_;
    std::size_t size_ = 0;
};

}  // namespace cairn::mpi
