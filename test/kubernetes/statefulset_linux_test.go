package kubernetes

import (
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStatefulSetIsUpdated runs the StatefulSet of the manifest and lets Kubernetes replace all its
// pods, one after the other, while its tasks save every 40 ms. The tasks begin once, and all values are
// right.
func TestStatefulSetIsUpdated(t *testing.T) {
	c := newCluster(t)
	n := newNode(t, c)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.said())
		}
	})
	var service core.Service
	var budget policy.PodDisruptionBudget
	var set apps.StatefulSet
	readManifest(t, "statefulset.yaml", &service, &budget, &set)
	const steps = "3000" // longer than the update takes
	set.Spec.Template.Spec.Containers[0].Args = []string{steps}
	c.secret(t, set.Name)
	if _, err := c.CoreV1().Services("default").Create(t.Context(), &service, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &budget, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sets := c.AppsV1().StatefulSets("default")
	if _, err := sets.Create(t.Context(), &set, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "first step", 2*time.Minute, func() bool { return strings.Contains(n.said(), ": step 10\n") })

	began := time.Now()
	await(t, "change of the template", time.Minute, func() bool {
		latest, err := sets.Get(t.Context(), set.Name, meta.GetOptions{})
		if err != nil {
			return false
		}
		latest.Spec.Template.Annotations = map[string]string{"version": "2"}
		_, err = sets.Update(t.Context(), latest, meta.UpdateOptions{})
		return err == nil // or the controller has changed it meanwhile
	})
	await(t, "end of the update", 5*time.Minute, func() bool {
		s, err := sets.Get(t.Context(), set.Name, meta.GetOptions{})
		return err == nil && s.Status.CurrentRevision == s.Status.UpdateRevision && s.Status.AvailableReplicas == *set.Spec.Replicas &&
			s.Status.ObservedGeneration == s.Generation
	})
	if strings.Contains(n.said(), ": right: ") {
		t.Fatal("the tasks ended before the update did")
	}
	t.Logf("the update took %v; longest stall %v", time.Since(began).Round(time.Second), stall(n.said()))
	replicas := int(*set.Spec.Replicas)
	if ended := strings.Count(n.said(), "exited with 143\n"); ended != replicas {
		t.Errorf("%d processes have left their job, want %d", ended, replicas)
	}
	await(t, "end of all tasks", 5*time.Minute, func() bool {
		said, right := n.said(), 0
		for i := range replicas {
			if strings.Contains(said, ": right: "+string(rune('0'+i))+"\n") {
				right++
			}
		}
		return right == replicas
	})
	if begun := strings.Count(n.said(), ": step 0\n"); begun != 1 {
		t.Errorf("the job began %d times", begun)
	}
}
