#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace vitrine::engine::cuda {

/// Equal slots of memory in slabs that come and go. `Buffer` owns a slab's bytes: data(), size().
/// A slot's number says in which slab it lies; numbers of slabs that went are used again.
template <typename Buffer>
class SlabArena final {
 public:
  SlabArena(std::size_t slotBytes, int slotsPerSlab)
      : m_slotBytes(slotBytes), m_slotsPerSlab(slotsPerSlab) {}

  int size() const { return m_slots; }
  int freeSlots() const { return static_cast<int>(m_free.size()); }
  int slotsPerSlab() const { return m_slotsPerSlab; }
  /// Every slot's number is below this.
  int slotLimit() const { return static_cast<int>(m_slabs.size()) * m_slotsPerSlab; }
  std::size_t bytes() const { return static_cast<std::size_t>(m_slots) * m_slotBytes; }

  /// Takes a slab of at most slotsPerSlab() slots over and returns its number.
  int add(Buffer memory) {
    const auto count = static_cast<int>(memory.size() / m_slotBytes);
    m_free.reserve(static_cast<std::size_t>(m_slots + count));
    auto place =
        std::find_if(m_slabs.begin(), m_slabs.end(), [](const Slab& s) { return s.count == 0; });
    if (place == m_slabs.end()) place = m_slabs.insert(place, Slab{});
    const auto index = static_cast<int>(place - m_slabs.begin());
    place->memory = std::move(memory);
    place->count = count;
    for (int i = count - 1; i >= 0; --i) m_free.push_back(index * m_slotsPerSlab + i);
    m_slots += count;
    return index;
  }

  /// Requires: freeSlots() > 0.
  int take() {
    const int slot = m_free.back();
    m_free.pop_back();
    ++slabOf(slot).used;
    return slot;
  }
  void release(int slot) {
    m_free.push_back(slot);
    --slabOf(slot).used;
  }
  std::byte* at(int slot) const {
    const Slab& slab = m_slabs[static_cast<std::size_t>(slot / m_slotsPerSlab)];
    return slab.memory.data() + static_cast<std::size_t>(slot % m_slotsPerSlab) * m_slotBytes;
  }

  int slabs() const { return static_cast<int>(m_slabs.size()); }
  /// Slots of a slab; 0: there is none with this number now.
  int slotsIn(int slab) const { return m_slabs[static_cast<std::size_t>(slab)].count; }
  int usedIn(int slab) const { return m_slabs[static_cast<std::size_t>(slab)].used; }
  bool isIn(int slot, int slab) const { return slot / m_slotsPerSlab == slab; }
  /// Free slots of other slabs are taken from now on, until remove() or putBack().
  void setAside(int slab) {
    std::erase_if(m_free, [&](int slot) { return isIn(slot, slab); });
  }
  /// Ends setAside(): the slots that nobody uses are free again. `isUsed`: by number.
  template <typename IsUsed>
  void putBack(int slab, IsUsed isUsed) {
    setAside(slab);
    for (int i = slotsIn(slab) - 1; i >= 0; --i) {
      const int slot = slab * m_slotsPerSlab + i;
      if (!isUsed(slot)) m_free.push_back(slot);
    }
  }
  /// Frees a slab's memory. Requires: no slot of it is used.
  void remove(int slab) {
    setAside(slab);
    Slab& gone = m_slabs[static_cast<std::size_t>(slab)];
    m_slots -= gone.count;
    gone = Slab{};
  }

 private:
  struct Slab {
    Buffer memory;
    int count = 0, used = 0;
  };
  Slab& slabOf(int slot) { return m_slabs[static_cast<std::size_t>(slot / m_slotsPerSlab)]; }

  std::size_t m_slotBytes;
  int m_slotsPerSlab;
  int m_slots = 0;
  std::vector<Slab> m_slabs;
  std::vector<int> m_free;
};

}  // namespace vitrine::engine::cuda
