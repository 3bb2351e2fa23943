// SPDX-License-Identifier: Apache-2.0

package v1

// Synchronization limits how many runs of a namespace are under way at a time. A run begins once it holds all of these
// mutexes and semaphores, and releases them when it has ended or is gone.
// +kubebuilder:validation:XValidation:rule="has(self.mutexes) || has(self.semaphores)",message="set mutexes, semaphores or both"
type Synchronization struct {
	// mutexes are held by one run at a time.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Mutexes []Mutex `json:"mutexes,omitempty"`
	// semaphores are held by as many runs at a time as a key of a ConfigMap says.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Semaphores []Semaphore `json:"semaphores,omitempty"`
	// priority of a run among those that wait for the same mutex or semaphore: the highest is first, and of equal ones the
	// oldest. A run that holds it is not interrupted. 0 when left out.
	// +optional
	Priority int32 `json:"priority,omitempty"`
}

// Mutex is held by one run of a namespace at a time.
type Mutex struct {
	// name of the mutex. Runs of the namespace that give the same name take turns.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// Semaphore is held by a limited number of runs of a namespace at a time.
type Semaphore struct {
	// configMapKeyRef names the limit.
	// +required
	ConfigMapKeyRef LimitReference `json:"configMapKeyRef"`
}

// LimitReference names a key of a ConfigMap, whose value is a whole number from 0 to 1000.
type LimitReference struct {
	// name of the ConfigMap, in the same namespace.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=150
	Name string `json:"name"`
	// key of the ConfigMap.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key"`
}

const (
	// SynchronizationAnnotation of the Operation of a run says, as JSON, what it has to hold.
	SynchronizationAnnotation = "batch.zeroinfra.github.com/synchronization"
	// SynchronizedAnnotation of the Operation of a run says since when it has held all of that.
	SynchronizedAnnotation = "batch.zeroinfra.github.com/synchronized"
	// SynchronizationLabel marks the ConfigMaps that say who holds a mutex or a semaphore.
	SynchronizationLabel = "batch.zeroinfra.github.com/holders-of"
)
