// SPDX-License-Identifier: Apache-2.0

package v1

// Mount is a volume for a mount that the plugin declares. It is neither made nor deleted with the instance, and others
// can have it, too.
// +kubebuilder:validation:XValidation:rule="[has(self.persistentVolumeClaim), has(self.nfs), has(self.csi), has(self.configMap), has(self.secret)].filter(x, x).size() == 1",message="a mount has exactly one of persistentVolumeClaim, nfs, csi, configMap and secret"
type Mount struct {
	// name of the mount within the plugin; of a mount that takes many volumes its name, a hyphen and the name of the
	// folder that the volume is to have there.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=47
	Name string `json:"name"`
	// subPath is a folder of the volume, which is mounted in place of its root, such as sets/digits.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:XValidation:rule="!self.contains('..')",message="subPath cannot hold two dots in a row"
	SubPath string `json:"subPath,omitempty"`
	// persistentVolumeClaim that is there.
	// +optional
	PersistentVolumeClaim *ObjectName `json:"persistentVolumeClaim,omitempty"`
	// nfs is an export of a server. Where a namespace enforces Pod Security restricted, make a PersistentVolume of it.
	// +optional
	NFS *NFSExport `json:"nfs,omitempty"`
	// csi is a volume that a driver makes for each pod.
	// +optional
	CSI *CSIVolume `json:"csi,omitempty"`
	// configMap whose keys are files. For mounts that are read only.
	// +optional
	ConfigMap *ObjectName `json:"configMap,omitempty"`
	// secret whose keys are files. For mounts that are read only.
	// +optional
	Secret *ObjectName `json:"secret,omitempty"`
}

// ObjectName names an object in the same namespace.
type ObjectName struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NFSExport is what a server of NFS exports.
type NFSExport struct {
	// server is its DNS name or IP address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Server string `json:"server"`
	// path that it exports.
	// +required
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path"`
}

// CSIVolume is a volume that a driver makes for a pod, and that goes with it.
type CSIVolume struct {
	// driver is the name of the CSIDriver.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// fsType is the file system, as the driver calls it. Default: what the driver takes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	FSType string `json:"fsType,omitempty"`
	// volumeAttributes are what the driver wants to know.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	VolumeAttributes map[string]string `json:"volumeAttributes,omitempty"`
	// nodePublishSecretRef names the Secret by which the driver is let in.
	// +optional
	NodePublishSecretRef *ObjectName `json:"nodePublishSecretRef,omitempty"`
}
